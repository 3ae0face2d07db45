import { createHash, randomBytes } from "node:crypto";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { parseCallId, parseToken, type CallIdParts, type TokenParts } from "../core/name.js";

/** 256 bits. */
const SECRET_BYTES = 32;

/**
 * The run and number that a call's id names.
 *
 * @throws TrunklineError NOT_FOUND for a text that no call can have as its id
 */
export function parseCallRefId(text: string): CallIdParts {
  const parts = parseCallId(text);
  if (parts === undefined) throw new TrunklineError("NOT_FOUND", `there is no call ${shownId(text)}`);
  return parts;
}

/** An id in the words of what it may be; quoted where it is none. */
function shownId(text: string): string {
  return text === "" ? "with an empty id" : quoted(text, 80);
}

/**
 * The parts of a completion token.
 *
 * @throws TrunklineError TOKEN_INVALID, as for any token that matches nothing
 */
export function parseTokenText(text: string): TokenParts {
  const parts = parseToken(text);
  if (parts === undefined) throw tokenInvalid();
  return parts;
}

/** The one answer to every token that matches nothing; it says nothing of the token. */
export function tokenInvalid(): TrunklineError {
  return new TrunklineError("TOKEN_INVALID", "no deferred call is waiting for this token");
}

/** What the server keeps of a token: the SHA-256 of its secret, as 64 hex digits. */
export function hashToken(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** A token's secret: 256 random bits in base64url. */
export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}
