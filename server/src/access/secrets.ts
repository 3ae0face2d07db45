import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** What an API key begins with, so that people, and scanners of published code, know one when they see it. */
const PREFIX = "tlk";
const ID_BYTES = 12;
const SECRET_BYTES = 32;
const KEY_ID = /^[0-9a-f]{24}$/;
const KEY = /^tlk_([0-9a-f]{24})_([A-Za-z0-9_-]{43})$/;

/** An API key as its holder has it: its id, which is no secret, and 256 random bits. */
export interface KeyText {
  readonly id: string;
  readonly secret: string;
}

/** A new key's id. */
export function newKeyId(): string {
  return randomBytes(ID_BYTES).toString("hex");
}

/** Whether a text is what {@link newKeyId} makes: what is not names no key. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text);
}

/** A new key's secret: 256 random bits in base64url. */
export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

/** 256 random bits that sign tokens. */
export function newSigningSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** What the holder of a key is given. */
export function keyText({ id, secret }: KeyText): string {
  return `${PREFIX}_${id}_${secret}`;
}

/** The parts of a key; null for what was never one. */
export function parseKeyText(text: string): KeyText | null {
  const [, id, secret] = KEY.exec(text) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** What is kept of a secret. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Whether a secret is the one of a hash, in one time whatever it is. */
export function isSecretOf(secret: string, hash: Buffer): boolean {
  return timingSafeEqual(hashSecret(secret), hash);
}
