import type { Right } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import { createKey, rotateKey, type KeyRecord } from "../store/access.js";
import type { Database } from "../store/database.js";
import { addFirstSigningKey, rotateSigningKey } from "../store/tokens.js";
import type { Access } from "./access.js";
import type { AccessBook } from "./access-book.js";
import { hashSecret, keyText, newKeyId, newSecret, newSigningSecret } from "./secrets.js";

/** A key, with what its holder is given once. */
export interface IssuedKey {
  readonly key: KeyRecord;
  readonly text: string;
}

/** Makes an API key of a project. This node knows it at once, others look for it when it is used there. */
export async function makeKey(
  db: Database,
  book: AccessBook | null,
  spec: { readonly projectId: number; readonly name: string; readonly rights: readonly Right[] },
): Promise<IssuedKey> {
  const id = newKeyId();
  const secret = newSecret();
  const key = await createKey(db, { ...spec, id, hash: hashSecret(secret) });
  if (key === null) throw new TrunklineError("INTERNAL", "the key was not stored");
  await book?.read();
  return { key, text: keyText({ id, secret }) };
}

/** Gives a key another secret; the old one is good for so long. Null where no such key is good. */
export async function replaceSecret(
  db: Database,
  book: AccessBook,
  { projectId, id }: { readonly projectId: number; readonly id: string },
  graceMs: number,
): Promise<IssuedKey | null> {
  const secret = newSecret();
  const key = await rotateKey(db, { projectId, id, hash: hashSecret(secret) }, graceMs);
  if (key === null) return null;
  await book.read();
  return { key, text: keyText({ id, secret }) };
}

/** Signs a project's tokens with a new key; those of the old one are good for so long. */
export async function replaceSigningKey(
  db: Database,
  book: AccessBook,
  projectId: number,
  graceMs: number,
): Promise<void> {
  await rotateSigningKey(db, { projectId, id: newKeyId(), secret: newSigningSecret() }, graceMs);
  await book.read();
}

/** What a token is to be good for. */
export interface TokenSpec {
  readonly projectId: number;
  readonly namespace: string;
  readonly runId: string | null;
  readonly rights: readonly Right[];
  readonly ttlMs: number;
}

/** A token, with what names it and when it expires, in milliseconds since 1970. */
export interface IssuedToken {
  readonly token: string;
  readonly id: string;
  readonly expiresAt: number;
}

/** Makes a token for one end user; its project gets a signing key with its first one. */
export async function issueToken(db: Database, access: Access, spec: TokenSpec): Promise<IssuedToken> {
  const { book, tokens } = access;
  if (book.signer(spec.projectId) === undefined) {
    await addFirstSigningKey(db, spec.projectId, newKeyId(), newSigningSecret());
    await book.read();
  }
  const { ttlMs, ...claims } = spec;
  const id = newKeyId();
  const expiresAt = Math.ceil((access.now() + ttlMs) / 1_000);
  return { token: await tokens.sign({ ...claims, id, expiresAt }), id, expiresAt: expiresAt * 1_000 };
}
