import type { Scope } from "./scope.js";

/** What a credential may do; the wire calls it a key's scope. */
export const RIGHTS = [
  /** Claim and answer calls. */
  "worker",
  /** Make runs, open and settle calls, declare toolsets. */
  "harness",
  /** Manage keys and tokens, see workers. */
  "admin",
] as const;

/** One of {@link RIGHTS}. */
export type Right = (typeof RIGHTS)[number];

/** How somebody showed who they are. */
export type CallerKind =
  /** The server asks for no key. */
  | "anyone"
  /** The key of `TRUNKLINE_ROOT_KEY`. */
  | "root"
  /** An API key of a project. */
  | "key"
  /** A signed token of one end user. */
  | "token";

/** Who sent a request, as its credential says. */
export interface Caller {
  readonly kind: CallerKind;
  /** Names the credential, in logs as well; no secret. Empty for those that are not kept anywhere. */
  readonly id: string;
  readonly scope: Scope;
  readonly rights: ReadonlySet<Right>;
  /** Milliseconds since 1970 by this node's clock; null: never. */
  readonly expiresAt: number | null;
}
