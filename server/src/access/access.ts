import { RIGHTS, type Caller, type Right } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import type { KeySecret, KeyUse } from "../store/access.js";
import type { AccessBook } from "./access-book.js";
import { EndUserTokens } from "./end-user-tokens.js";
import { hashSecret, isSecretOf, parseKeyText } from "./secrets.js";

/** The project that every database has from the start. */
export const DEFAULT_PROJECT_ID = 1;

const ALL_RIGHTS: ReadonlySet<Right> = new Set(RIGHTS);
const ROOT: Caller = {
  kind: "root",
  id: "",
  scope: { projectId: DEFAULT_PROJECT_ID, namespace: null },
  rights: ALL_RIGHTS,
  expiresAt: null,
};
const ANYONE: Caller = { ...ROOT, kind: "anyone" };

/** How a server knows its callers. */
export interface AccessOptions {
  /** A key with all rights, above those of its projects; null for a server that has none. */
  readonly rootKey: string | null;
  /** Serves everybody, whatever they show. */
  readonly insecure: boolean;
  readonly book: AccessBook;
  /** What time it is, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: () => number;
}

const BEARER = /^Bearer +(\S+) *$/i;

/** Tells from a request's `Authorization` header who sent it. */
export class Access {
  readonly book: AccessBook;
  readonly tokens: EndUserTokens;
  /** Whether anybody may do anything. */
  readonly insecure: boolean;
  /** By this keys and tokens expire; in milliseconds since 1970. */
  readonly now: () => number;
  readonly #rootHash: Buffer | null;
  /** Of callers that may be refused later on: whether they would be now. */
  readonly #standings = new WeakMap<Caller, () => TrunklineError | null>();
  readonly #listeners: (() => void)[] = [];
  readonly #usedAt = new Map<string, { readonly key: KeySecret; readonly at: number }>();

  constructor({ rootKey, insecure, book, now = Date.now }: AccessOptions) {
    this.book = book;
    this.now = now;
    this.tokens = new EndUserTokens(book, now);
    this.insecure = insecure;
    this.#rootHash = rootKey === null ? null : hashSecret(rootKey);
    book.onChange(() => this.#recheck());
  }

  /**
   * Whoever sent this header; null is none. A read happens only for a key that is new to this node.
   *
   * @throws TrunklineError UNAUTHENTICATED; its message never has what was sent
   */
  async authenticate(authorization: string | null): Promise<Caller> {
    if (this.insecure) return ANYONE;
    if (authorization === null) {
      throw new TrunklineError("UNAUTHENTICATED", "the request has no key; send Authorization: Bearer KEY");
    }
    const [, credential] = BEARER.exec(authorization) ?? [];
    if (credential === undefined) {
      throw new TrunklineError(
        "UNAUTHENTICATED",
        "the Authorization header is malformed; allowed is Bearer and a key without white space",
      );
    }
    // Hashes have one length, and comparing them takes one time, whatever the key.
    if (this.#rootHash !== null && isSecretOf(credential, this.#rootHash)) return ROOT;
    return EndUserTokens.looksLike(credential) ? this.#holder(credential) : this.#keyHolder(credential);
  }

  /** The number of the last change to keys and tokens, as each renewal of the node tells it. */
  async heard(version: number): Promise<void> {
    // Tokens expire without any change.
    if (!(await this.book.heard(version))) this.#recheck();
  }

  /** Calls `listener` whenever callers who were let in may have to go: see {@link refusalOf}. */
  onRecheck(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Why a caller who was let in would not be now; null while it would. */
  refusalOf(caller: Caller): TrunklineError | null {
    return this.#standings.get(caller)?.() ?? null;
  }

  /** The keys that were used since this was last asked, each with how long ago. */
  takeUses(): KeyUse[] {
    const now = performance.now();
    const uses = [...this.#usedAt.values()].map(({ key: { projectId, id }, at }) => ({
      projectId,
      id,
      agoMs: now - at,
    }));
    this.#usedAt.clear();
    return uses;
  }

  #recheck(): void {
    for (const listener of this.#listeners) listener();
  }

  async #holder(token: string): Promise<Caller> {
    const { version } = this.book;
    const verified = await this.tokens.verify(token).catch(async (error: unknown) => {
      // It may be signed with a key that another node has just made.
      if (await this.book.lookAgain(version)) return this.tokens.verify(token);
      throw error;
    });
    this.#standings.set(verified.caller, () => this.tokens.refusalOf(verified));
    return verified.caller;
  }

  async #keyHolder(credential: string): Promise<Caller> {
    const parts = parseKeyText(credential);
    if (parts === null) throw unknownKey();
    const { id, secret } = parts;
    const good = (): KeySecret | undefined => {
      const known = this.book.key(id);
      return known !== undefined && isKey(known, secret, this.now()) ? known : undefined;
    };
    const { version } = this.book;
    const key = good() ?? ((await this.book.lookAgain(version)) ? good() : undefined);
    if (key === undefined) throw unknownKey();
    this.#usedAt.set(id, { key, at: performance.now() });
    const caller = callerOfKey(key);
    this.#standings.set(caller, () => (good() === undefined ? unknownKey() : null));
    return caller;
  }
}

function isKey({ hash, oldHash, oldUntil }: KeySecret, secret: string, now: number): boolean {
  if (isSecretOf(secret, hash)) return true;
  const isOldGood = oldUntil !== null && oldUntil / 1_000 > now;
  return oldHash !== null && isOldGood && isSecretOf(secret, oldHash);
}

function callerOfKey({ id, projectId, rights }: KeySecret): Caller {
  return {
    kind: "key",
    id,
    scope: { projectId, namespace: null },
    rights: new Set(rights),
    expiresAt: null,
  };
}

/** One answer for a key that was never made, one that was revoked, and one with another secret. */
function unknownKey(): TrunklineError {
  return new TrunklineError("UNAUTHENTICATED", "the key is not known to this server, or was revoked");
}
