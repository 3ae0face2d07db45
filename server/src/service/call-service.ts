import type { ServiceImpl } from "@connectrpc/connect";
import type {
  CallService,
  CancelCallResponse,
  GetCallResponse,
  IssueTokenResponse,
  OpenCallsRequest,
  OpenResult,
} from "@trunkline/proto/call";
import type { CallRef } from "../core/call.js";
import type { Caller } from "../core/caller.js";
import { LIMITS } from "../core/limits.js";
import { formatCallId, formatToken } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { isWithin, notFound } from "../exchange/call-writer.js";
import { loadRecords } from "../store/calls-read.js";
import type { CallRecord } from "../store/rows.js";
import { callerOf, scopeOf } from "./auth.js";
import { resolveRef } from "./call-refs.js";
import { cutToRun, toCallMessage, toTimestamp } from "./convert.js";
import { toCallState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { hashToken, newSecret } from "./door.js";
import { checkCount } from "./door-field.js";
import { isFault, toProblem } from "./error-map.js";
import { listCalls } from "./list-calls.js";
import { knownRun, openCall } from "./open-call.js";
import { checkVerdict, settleCalls } from "./settle-calls.js";
import { waitCalls } from "./wait-calls.js";

/** The unary RPCs of CallService. */
export type UnaryCallService = Omit<ServiceImpl<typeof CallService>, "drive">;

/** CallService without `Drive`. */
export function callService(deps: ServiceDeps): UnaryCallService {
  return {
    openCalls: async (request, context) => ({ results: await openCalls(deps, callerOf(context), request) }),
    waitCalls: (request, context) => waitCalls(deps, callerOf(context), request, context.signal),
    getCall: async ({ call }, context) => {
      const scope = scopeOf(context);
      return getCall(deps, scope, await resolveRef(deps, scope, call));
    },
    listCalls: (request, context) => listCalls(deps, scopeOf(context), request),
    cancelCall: async ({ call }, context) => {
      const scope = scopeOf(context);
      return cancelCall(deps, scope, await resolveRef(deps, scope, call));
    },
    settleCalls: async ({ items }, context) => ({
      results: await settleCalls(deps, scopeOf(context), items),
    }),
    issueToken: async ({ call }, context) => {
      const scope = scopeOf(context);
      return issueToken(deps, scope, await resolveRef(deps, scope, call));
    },
  };
}

/** Opens calls in one run, each for itself: one that is refused harms no other (I11). */
async function openCalls(
  deps: ServiceDeps,
  caller: Caller,
  { runId, calls }: OpenCallsRequest,
): Promise<OpenResult[]> {
  checkCount(calls.length, "calls", LIMITS.callsPerRequest);
  // Once for all of them: from here on the run is known, and they get their numbers in their order.
  const run = await knownRun(deps, caller.scope, runId);
  await deps.catalog.tools(run);
  return Promise.all(
    calls.map(async (spec, index): Promise<OpenResult> => {
      try {
        const { opened } = await openCall(deps, caller, runId, spec, `calls[${String(index)}]`);
        return { $typeName: "trunkline.v1.OpenResult", result: { case: "opened", value: opened } };
      } catch (error) {
        if (isFault(error)) deps.onError(error);
        return { $typeName: "trunkline.v1.OpenResult", result: { case: "problem", value: toProblem(error) } };
      }
    }),
  );
}

/**
 * A call with all that is stored of it.
 *
 * @throws TrunklineError NOT_FOUND where it is missing or not of this scope
 */
async function recordOf(
  { exchange }: ServiceDeps,
  scope: Scope,
  ref: CallRef,
  options: { readonly payloads: boolean },
): Promise<CallRecord> {
  const [record] = await loadRecords(exchange.db, [ref], options);
  if (record === null || record === undefined || !isWithin(record.call, scope)) throw notFound(ref);
  return record;
}

async function getCall(deps: ServiceDeps, scope: Scope, ref: CallRef): Promise<GetCallResponse> {
  const record = await recordOf(deps, scope, ref, { payloads: true });
  return { $typeName: "trunkline.v1.GetCallResponse", call: toCallMessage(record, { payloads: true }) };
}

async function cancelCall(deps: ServiceDeps, scope: Scope, ref: CallRef): Promise<CancelCallResponse> {
  const { call } = await deps.exchange.apply(ref, { type: "cancel", cause: "canceled" }, scope);
  return {
    $typeName: "trunkline.v1.CancelCallResponse",
    callId: formatCallId(call),
    state: toCallState(call.state),
  };
}

async function issueToken(deps: ServiceDeps, scope: Scope, ref: CallRef): Promise<IssueTokenResponse> {
  const secret = newSecret();
  const applied = await deps.exchange.apply(
    ref,
    { type: "issue_token", tokenHash: hashToken(secret) },
    scope,
  );
  checkVerdict(applied);
  const { runId, seq, attempt } = applied.call;
  const record = await recordOf(deps, scope, ref, { payloads: false });
  const expiresAt = cutToRun(record, record.deferTimeoutAt);
  return {
    $typeName: "trunkline.v1.IssueTokenResponse",
    token: formatToken({ runId, seq, attempt, secret }),
    expiresAt: expiresAt === null ? undefined : toTimestamp(expiresAt),
  };
}
