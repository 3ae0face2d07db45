import { createHash, timingSafeEqual } from "node:crypto";
import { createContextKey, type ContextValues } from "@connectrpc/connect";
import { TrunklineError } from "../core/error.js";
import type { Scope } from "../core/scope.js";

/** The project that every database has from the start. */
export const DEFAULT_PROJECT_ID = 1;

/** What the root key, and a server without keys, reaches: everything there is. */
export const ROOT_SCOPE: Scope = { projectId: DEFAULT_PROJECT_ID, namespace: null };

/** How a server knows its callers. */
export interface AuthOptions {
  /** Its one key; null for a server that has none. */
  readonly rootKey: string | null;
  /** Serves everybody, whatever they show. */
  readonly insecure: boolean;
}

const BEARER = /^Bearer +(\S+) *$/i;

/** Tells from a request's `Authorization` header whose data it may reach. */
export class Authenticator {
  readonly #keyHash: Buffer | null;
  readonly #insecure: boolean;

  constructor({ rootKey, insecure }: AuthOptions) {
    this.#keyHash = rootKey === null ? null : hashOf(rootKey);
    this.#insecure = insecure;
  }

  /**
   * The scope of whoever sent this header; null is none.
   *
   * @throws TrunklineError UNAUTHENTICATED; its message never has what was sent
   */
  authenticate(authorization: string | null): Scope {
    if (this.#insecure) return ROOT_SCOPE;
    if (authorization === null) {
      throw new TrunklineError("UNAUTHENTICATED", "the request has no key; send Authorization: Bearer KEY");
    }
    const [, key] = BEARER.exec(authorization) ?? [];
    if (key === undefined) {
      throw new TrunklineError(
        "UNAUTHENTICATED",
        "the Authorization header is malformed; allowed is Bearer and a key without white space",
      );
    }
    // Hashes have one length, and comparing them takes one time, whatever the key.
    if (this.#keyHash === null || !timingSafeEqual(hashOf(key), this.#keyHash)) {
      throw new TrunklineError("UNAUTHENTICATED", "the key is not known to this server");
    }
    return ROOT_SCOPE;
  }
}

function hashOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Where a request's scope is kept; undefined where nobody was authenticated. */
export const scopeKey = createContextKey<Scope | undefined>(undefined, { description: "scope" });

/**
 * The scope of a request.
 *
 * @throws TrunklineError UNAUTHENTICATED where nobody was authenticated
 */
export function scopeOf(context: { readonly values: ContextValues }): Scope {
  const scope = context.values.get(scopeKey);
  if (scope === undefined) throw new TrunklineError("UNAUTHENTICATED", "the request was not authenticated");
  return scope;
}
