import type { SettleItem, SettleResult } from "@trunkline/proto/call";
import { CallState as WireCallState } from "@trunkline/proto/model";
import type { Call, CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Answer } from "../core/failure.js";
import { LIMITS } from "../core/limits.js";
import { formatCallId } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { isWithin, notFound, type Applied } from "../exchange/call-writer.js";
import { loadCalls } from "../store/calls-read.js";
import { resolveRefs } from "./call-refs.js";
import { toCallState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { checkAnswer } from "./door.js";
import { checkCount, invalidField } from "./door-field.js";
import { isFault, toProblem } from "./error-map.js";
import type { DeclaredTool } from "./toolset-catalog.js";

const MAX_ATTEMPT = 2 ** 31 - 1;

/** A call that is to be answered from outside, with its tool where its run has a toolset. */
export interface Target {
  readonly call: Call;
  readonly tool: DeclaredTool | undefined;
}

/**
 * Ends calls, or their last attempts, from outside their claims: each item for itself (I11), in their order.
 *
 * @throws TrunklineError for a request without items, or with too many
 */
export async function settleCalls(
  deps: ServiceDeps,
  scope: Scope,
  items: readonly SettleItem[],
): Promise<SettleResult[]> {
  checkCount(items.length, "items", LIMITS.callsPerRequest);
  const refs = await resolveRefs(
    deps,
    scope,
    items.map(({ call }) => call),
    (index) => `items[${String(index)}].call`,
  );
  const targets = await findTargets(deps, scope, refs);
  return Promise.all(
    items.map(({ attempt = null, settlement }, index) => {
      const field = `items[${String(index)}]`;
      return settleTarget(deps, scope, targets[index], {
        attempt,
        attemptField: `${field}.attempt`,
        answer: (tool) => checkAnswer(settlement, `${field}.settlement`, tool),
      });
    }),
  );
}

/** The calls that refs name, with their tools; an error in place of each that names none in scope. */
export async function findTargets(
  deps: ServiceDeps,
  scope: Scope,
  refs: readonly (CallRef | TrunklineError)[],
): Promise<(Target | TrunklineError)[]> {
  const named = refs.flatMap((ref) => (ref instanceof TrunklineError ? [] : ref));
  const calls = named.length === 0 ? [] : await loadCalls(deps.exchange.db, named);
  let at = 0;
  return Promise.all(
    refs.map(async (ref) => {
      if (ref instanceof TrunklineError) return ref;
      const call = calls[at++];
      if (call === null || call === undefined || !isWithin(call, scope)) return notFound(ref);
      return { call, tool: await toolOf(deps, scope, call) };
    }),
  );
}

/** The declaration of a call's tool; undefined where its run has no toolset. */
async function toolOf(deps: ServiceDeps, scope: Scope, call: Call): Promise<DeclaredTool | undefined> {
  const { runs } = deps.exchange;
  const run = runs.peek(scope, call.runId) ?? (await runs.get(scope, call.runId));
  const tools = run === undefined ? null : await deps.catalog.tools(run);
  return tools?.get(call.tool);
}

/** How a call is to end. */
export interface Settling {
  /** Null for the last one. */
  readonly attempt: number | null;
  /** What the attempt is called in messages. */
  readonly attemptField: string;
  /**
   * The answer, checked.
   *
   * @throws TrunklineError
   */
  readonly answer: (tool: DeclaredTool | undefined) => Answer;
}

/** Ends one call, or its last attempt; a refusal is in the result. */
export async function settleTarget(
  { exchange, onError }: ServiceDeps,
  scope: Scope,
  target: Target | TrunklineError | undefined,
  { attempt, attemptField, answer: check }: Settling,
): Promise<SettleResult> {
  const result: SettleResult = {
    $typeName: "trunkline.v1.SettleResult",
    callId: "",
    state: WireCallState.UNSPECIFIED,
  };
  try {
    if (target === undefined) throw new TrunklineError("INTERNAL", "an item was lost on the way");
    if (target instanceof TrunklineError) throw target;
    result.callId = formatCallId(target.call);
    result.state = toCallState(target.call.state);
    if (attempt !== null && attempt > MAX_ATTEMPT) {
      throw invalidField(attemptField, attempt, `is 1 to ${String(MAX_ATTEMPT)}`);
    }
    const answer = check(target.tool);
    const applied = await exchange.apply(target.call, { type: "settle", attempt, answer }, scope);
    result.state = toCallState(applied.call.state);
    checkVerdict(applied);
  } catch (error) {
    if (isFault(error)) onError(error);
    result.problem = toProblem(error);
  }
  return result;
}

/**
 * Refuses what the state machine refused.
 *
 * @throws TrunklineError with its reason and message
 */
export function checkVerdict({ verdict }: Pick<Applied, "verdict">): void {
  if (!verdict.ok) throw new TrunklineError(verdict.reason, verdict.message);
}
