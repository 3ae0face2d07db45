import { createContextKey, type ContextValues } from "@connectrpc/connect";
import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import type { Scope } from "../core/scope.js";

/**
 * What the gate found of a request: who sent it, null where the RPC asks nobody, or why it is refused. Undefined where
 * it did not pass the gate, which no service takes.
 */
export type Admission = Caller | TrunklineError | null | undefined;

/** Where a request's admission is kept. */
export const admissionKey = createContextKey<Admission>(undefined, { description: "admission" });

/** What a handler is given of its request. */
interface RequestContext {
  readonly values: ContextValues;
}

/**
 * Who sent a request.
 *
 * @throws TrunklineError UNAUTHENTICATED where nobody was authenticated
 */
export function callerOf(context: RequestContext): Caller {
  const admission = context.values.get(admissionKey);
  if (admission instanceof TrunklineError) throw admission;
  if (admission !== null && admission !== undefined) return admission;
  throw new TrunklineError("UNAUTHENTICATED", "the request was not authenticated");
}

/**
 * What whoever sent a request reaches.
 *
 * @throws TrunklineError UNAUTHENTICATED where nobody was authenticated
 */
export function scopeOf(context: RequestContext): Scope {
  return callerOf(context).scope;
}
