import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { ProblemSchema, Reason as WireReason } from "@trunkline/proto/problem";
import { TrunklineError } from "./errors.js";
import { askKey, type KeySource } from "./key-source.js";

/** Shows the key with each request and each stream. */
export function authorize(key: KeySource): Interceptor {
  if (typeof key === "string") {
    return (next) => (request) => {
      request.header.set("authorization", `Bearer ${key}`);
      return next(request);
    };
  }
  return (next) => async (request) => {
    const given = await asServerSays(askKey(key, "key", request.signal));
    request.header.set("authorization", `Bearer ${given}`);
    return next(request);
  };
}

const CODE_OF = {
  UNAVAILABLE: Code.Unavailable,
  UNAUTHENTICATED: Code.Unauthenticated,
  PERMISSION_DENIED: Code.PermissionDenied,
} as const;

/** Rejects as if the server had said it, so that whoever sent the request treats it as such. */
async function asServerSays(asked: Promise<string>): Promise<string> {
  try {
    return await asked;
  } catch (thrown) {
    if (!(thrown instanceof TrunklineError) || !Object.hasOwn(CODE_OF, thrown.reason)) throw thrown;
    const reason = thrown.reason as keyof typeof CODE_OF; // It was looked up above.
    const { message } = thrown;
    const value = { code: CODE_OF[reason], reason: WireReason[reason], message };
    throw new ConnectError(message, value.code, undefined, [{ desc: ProblemSchema, value }]);
  }
}
