import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { ProblemSchema, Reason as WireReason } from "@trunkline/proto/problem";
import { abortReason, onAbort } from "./abort.js";
import { TrunklineError } from "./errors.js";
import { isRefusedCredential } from "./problem.js";
import { typeOf } from "./text.js";

/** What shows who a client is: an API key or an end user's token, or a function that gives one. */
export type KeySource = string | (() => string | Promise<string>);

/**
 * Checks what a caller gives as `key`. A function is not asked yet.
 *
 * @throws TrunklineError INVALID_FIELD; the key is not shown
 */
export function checkKey(key: KeySource): KeySource {
  if (typeof key === "function") return key;
  const fault = faultOf(key);
  if (fault === undefined) return key;
  throw new TrunklineError("INVALID_FIELD", `key: ${fault}`, { metadata: { field: "key" } });
}

/** Shows the key with each request and each stream. */
export function authorize(key: KeySource): Interceptor {
  if (typeof key === "string") {
    return (next) => (request) => {
      request.header.set("authorization", `Bearer ${key}`);
      return next(request);
    };
  }
  return (next) => async (request) => {
    const given = await whileWanted(() => ask(key), request.signal);
    request.header.set("authorization", `Bearer ${given}`);
    return next(request);
  };
}

/**
 * Whether a refused credential is the end. One that a function gives may have expired meanwhile, so the function is
 * asked once more; refused again, before the server has accepted any, it is the end as any other is.
 */
export class Refusals {
  readonly #renews: boolean;
  #askedAgain = false;

  /** @param renews whether the key comes from a function */
  constructor(renews: boolean) {
    this.#renews = renews;
  }

  /** Whether an error, which was thrown just now, makes further tries useless. */
  isFinal(error: TrunklineError): boolean {
    if (!isRefusedCredential(error)) return false;
    this.#askedAgain = this.#renews && error.reason === "UNAUTHENTICATED" && !this.#askedAgain;
    return !this.#askedAgain;
  }

  /** The server has answered somebody with the credential. */
  accepted(): void {
    this.#askedAgain = false;
  }
}

async function ask(key: () => string | Promise<string>): Promise<string> {
  let given: string;
  try {
    given = await key();
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    // Who says so is not asked again and again.
    const isFinal = thrown instanceof TrunklineError && isRefusedCredential(thrown);
    throw problem(isFinal ? "PERMISSION_DENIED" : "UNAVAILABLE", `key: the function threw: ${why}`);
  }
  const fault = faultOf(given);
  if (fault === undefined) return given;
  throw problem("UNAUTHENTICATED", `key: of what the function gave, ${fault}`);
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

const CODE_OF = {
  UNAVAILABLE: Code.Unavailable,
  UNAUTHENTICATED: Code.Unauthenticated,
  PERMISSION_DENIED: Code.PermissionDenied,
} as const;

/** As the server would say it, so that whoever sent the request treats it as such. */
function problem(reason: keyof typeof CODE_OF, message: string): ConnectError {
  const code = CODE_OF[reason];
  const value = { code, reason: WireReason[reason], message };
  return new ConnectError(message, code, undefined, [{ desc: ProblemSchema, value }]);
}

/** What `work` resolves to, unless the signal aborts before. */
function whileWanted<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(abortReason(signal)));
    void work().then(resolve, reject).finally(forget);
  });
}
