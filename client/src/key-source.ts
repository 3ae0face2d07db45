import { abortReason, onAbort } from "./abort.js";
import { isRefusedCredential, TrunklineError } from "./errors.js";
import { typeOf } from "./text.js";

/** What shows who a client is: an API key or an end user's token, or a function that gives one. */
export type KeySource = string | (() => string | Promise<string>);

/**
 * Checks what a caller gives as its key. A function is not asked yet.
 *
 * @param field what it is called in messages
 * @throws TrunklineError INVALID_FIELD; the key is not shown
 */
export function checkKey(key: KeySource, field: string): KeySource {
  if (typeof key === "function") return key;
  const fault = faultOf(key);
  if (fault === undefined) return key;
  throw new TrunklineError("INVALID_FIELD", `${field}: ${fault}`, { metadata: { field } });
}

/**
 * The key, of a function too. Rejects with the signal's reason when that aborts before.
 *
 * @param field what it is called in messages
 * @throws TrunklineError UNAUTHENTICATED for what cannot be a key; when the function throws UNAVAILABLE, or
 *   PERMISSION_DENIED where that says so
 */
export function askKey(key: KeySource, field: string, signal: AbortSignal): Promise<string> {
  if (typeof key === "string") return Promise.resolve(key);
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(abortReason(signal)));
    void ask(key, field).then(resolve, reject).finally(forget);
  });
}

async function ask(key: () => string | Promise<string>, field: string): Promise<string> {
  let given: string;
  try {
    given = await key();
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    // Who says so is not asked again and again.
    const isFinal = thrown instanceof TrunklineError && isRefusedCredential(thrown);
    throw new TrunklineError(
      isFinal ? "PERMISSION_DENIED" : "UNAVAILABLE",
      `${field}: the function threw: ${why}`,
    );
  }
  const fault = faultOf(given);
  if (fault === undefined) return given;
  throw new TrunklineError("UNAUTHENTICATED", `${field}: of what the function gave, ${fault}`);
}

/** What is wrong with a key that is a text; undefined when nothing is. The key itself stays out of it. */
function faultOf(key: string): string | undefined {
  // What comes from JavaScript may be anything.
  const given: unknown = key;
  const allowed = "allowed are visible ASCII characters";
  if (typeof given !== "string") return `${typeOf(given)} is not a text; ${allowed}`;
  if (given === "") return `it is empty; ${allowed}`;
  const at = given.search(/[^\x21-\x7e]/);
  if (at === -1) return undefined;
  return `character ${at + 1} is a space, a control character (a trailing newline?) or not ASCII; ${allowed}`;
}
