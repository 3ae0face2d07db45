import type { ServiceImpl } from "@connectrpc/connect";
import type {
  CompleteTaskResponse,
  FailTaskResponse,
  GetTaskResponse,
  TaskService,
} from "@trunkline/proto/task";
import { isEnded, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Answer } from "../core/failure.js";
import { formatCallId } from "../core/name.js";
import { staleAttempt } from "../core/refusal.js";
import { hasToken } from "../core/token.js";
import type { Applied } from "../exchange/call-writer.js";
import { findTokens } from "../store/call-tokens.js";
import { loadRecords } from "../store/calls-read.js";
import { cutToRun, toTimestamp } from "./convert.js";
import { toCallState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { hashToken, parseTokenText } from "./door.js";
import { checkResult, OUTSIDE_KINDS, toFailure } from "./door-answer.js";
import { missingField } from "./door-field.js";
import { tokenInvalid } from "./door-token.js";
import { checkVerdict, findTargets } from "./settle-calls.js";
import type { DeclaredTool } from "./toolset-catalog.js";

/** TaskService: whoever holds a token may answer its one call. It asks for no key. */
export function taskService(deps: ServiceDeps): ServiceImpl<typeof TaskService> {
  return {
    completeTask: ({ token, resultJson }) => completeTask(deps, token, resultJson),
    failTask: ({ token, failure }) => {
      if (failure === undefined) throw missingField("failure", "is why the call fails");
      const answer: Answer = { type: "failure", failure: toFailure(failure, "failure", OUTSIDE_KINDS) };
      return failTask(deps, token, answer);
    },
    getTask: ({ token }) => getTask(deps, token),
  };
}

/** A call, and the attempt and hash of a token that was made for it. */
interface Held {
  readonly ref: CallRef;
  readonly attempt: number;
  readonly tokenHash: string;
}

/**
 * The call that a token was made for. The token itself is the right to it, whoever's call it is. One that matches
 * nothing is refused here, after one and the same read whether its call is there or not, and however it stands.
 *
 * @throws TrunklineError TOKEN_INVALID
 */
async function heldBy({ exchange }: ServiceDeps, token: string): Promise<Held> {
  const { runId, seq, attempt, secret } = parseTokenText(token);
  const tokenHash = hashToken(secret);
  const found = await findTokens(exchange.db, { runId, seq });
  if (!hasToken(found?.tokens ?? [], attempt, tokenHash) || found === null) throw tokenInvalid();
  return { ref: { projectId: found.projectId, runId, seq }, attempt, tokenHash };
}

async function completeTask(deps: ServiceDeps, token: string, given: string): Promise<CompleteTaskResponse> {
  const resultJson = given === "" ? "null" : given;
  checkResult(resultJson, "result_json", undefined);
  const held = await heldBy(deps, token);
  // What the schema says is only for who holds a token of the call.
  checkResult(resultJson, "result_json", await toolOf(deps, held));
  const { call } = await settle(deps, held, { type: "result", resultJson });
  return { $typeName: "trunkline.v1.CompleteTaskResponse", callId: formatCallId(call) };
}

async function failTask(deps: ServiceDeps, token: string, answer: Answer): Promise<FailTaskResponse> {
  const { call } = await settle(deps, await heldBy(deps, token), answer);
  return {
    $typeName: "trunkline.v1.FailTaskResponse",
    callId: formatCallId(call),
    state: toCallState(call.state),
  };
}

async function toolOf(deps: ServiceDeps, { ref }: Held): Promise<DeclaredTool | undefined> {
  const [target] = await findTargets(deps, { projectId: ref.projectId, namespace: null }, [ref]);
  if (target === undefined || target instanceof TrunklineError) throw tokenInvalid();
  return target.tool;
}

async function settle(
  { exchange }: ServiceDeps,
  { ref, attempt, tokenHash }: Held,
  answer: Answer,
): Promise<Applied> {
  try {
    const applied = await exchange.apply(ref, { type: "settle_by_token", attempt, tokenHash, answer }, null);
    checkVerdict(applied);
    return applied;
  } catch (error) {
    // A call that was deleted meanwhile is a token that matches nothing: the two look the same.
    if (error instanceof TrunklineError && error.reason === "NOT_FOUND") throw tokenInvalid();
    throw error;
  }
}

async function getTask(deps: ServiceDeps, token: string): Promise<GetTaskResponse> {
  const { ref, attempt } = await heldBy(deps, token);
  const [record] = await loadRecords(deps.exchange.db, [ref], { payloads: true });
  if (record === null || record === undefined) throw tokenInvalid();
  const { call } = record;
  if (isEnded(call))
    throw new TrunklineError("CALL_ENDED", `call ${formatCallId(call)} has ended: ${call.state}`);
  if (call.attempt !== attempt) checkVerdict(staleAttempt(call, attempt));
  const expiresAt = cutToRun(record, record.deferTimeoutAt);
  return {
    $typeName: "trunkline.v1.GetTaskResponse",
    callId: formatCallId(call),
    tool: call.tool,
    inputJson: record.inputJson,
    namespace: call.namespace,
    expiresAt: expiresAt === null ? undefined : toTimestamp(expiresAt),
  };
}
