import type { CallRef as WireCallRef } from "@trunkline/proto/call";
import type { CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { checkName, isUuid } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { findCalls, type CallKey } from "../store/calls-read.js";
import type { ServiceDeps } from "./deps.js";
import { parseCallRefId } from "./door.js";
import { missingField } from "./door-field.js";

/**
 * The calls that a request names, by id or by run and key: in their order, an error in place of each that
 * names none. Whether a call that is named by its id is there is for who reads it next; one that is named by its key
 * is found in scope alone, so that nobody learns the id of somebody else's.
 *
 * @param fieldOf what the ref at an index is called in messages
 */
export async function resolveRefs(
  { exchange }: ServiceDeps,
  scope: Scope,
  refs: readonly (WireCallRef | undefined)[],
  fieldOf: (index: number) => string,
): Promise<(CallRef | TrunklineError)[]> {
  const keyed: { readonly index: number; readonly ref: CallKey }[] = [];
  const resolved = refs.map((ref, index): CallRef | TrunklineError => {
    try {
      const named = checkRef(ref, fieldOf(index));
      if ("seq" in named) return { projectId: scope.projectId, ...named };
      keyed.push({ index, ref: named });
      return noKey(named);
    } catch (error) {
      if (error instanceof TrunklineError) return error;
      throw error;
    }
  });
  if (keyed.length === 0) return resolved;
  const found = await findCalls(
    exchange.db,
    scope,
    keyed.map(({ ref }) => ref),
  );
  keyed.forEach(({ index }, at) => {
    const ref = found[at];
    if (ref !== null && ref !== undefined) resolved[index] = ref;
  });
  return resolved;
}

/**
 * The one call that a request names.
 *
 * @throws TrunklineError NOT_FOUND, INVALID_FIELD or LIMIT_EXCEEDED
 */
export async function resolveRef(
  deps: ServiceDeps,
  scope: Scope,
  ref: WireCallRef | undefined,
  field = "call",
): Promise<CallRef> {
  const [resolved] = await resolveRefs(deps, scope, [ref], () => field);
  if (resolved === undefined) throw missingField(field, "is a call's id, or its run and key");
  if (resolved instanceof TrunklineError) throw resolved;
  return resolved;
}

function checkRef(ref: WireCallRef | undefined, field: string): Pick<CallRef, "runId" | "seq"> | CallKey {
  if (ref === undefined) throw missingField(field, "is a call's id, or its run and key");
  if (ref.callId !== "") return parseCallRefId(ref.callId);
  if (ref.runId === "" || ref.key === "") {
    const missing = ref.runId === "" && ref.key === "" ? "call_id" : ref.runId === "" ? "run_id" : "key";
    throw missingField(`${field}.${missing}`, "is call_id, or both run_id and key");
  }
  checkName(ref.key, `${field}.key`);
  if (!isUuid(ref.runId)) throw noKey(ref);
  return { runId: ref.runId, key: ref.key };
}

function noKey({ runId, key }: CallKey): TrunklineError {
  return new TrunklineError(
    "NOT_FOUND",
    `there is no call with key ${quoted(key)} in run ${quoted(runId, 80)}`,
  );
}
