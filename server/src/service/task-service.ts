import type { ServiceImpl } from "@connectrpc/connect";
import type {
  CompleteTaskResponse,
  FailTaskResponse,
  GetTaskResponse,
  TaskService,
} from "@trunkline/proto/task";
import { isEnded, type Call, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Answer } from "../core/failure.js";
import { formatCallId, type TokenParts } from "../core/name.js";
import { staleAttempt } from "../core/refusal.js";
import type { Applied } from "../exchange/call-writer.js";
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

/** What a token names. The token itself is the right to it, whoever's call it is. */
async function refOf({ exchange }: ServiceDeps, { runId, seq }: TokenParts): Promise<CallRef> {
  const projectId = await exchange.runs.projectOf(runId);
  if (projectId === null) throw tokenInvalid();
  return { projectId, runId, seq };
}

/** Whether the token was made for the call. */
function isOf(call: Call, { attempt, secret }: TokenParts): boolean {
  const hash = hashToken(secret);
  return call.tokens.some((token) => token.attempt === attempt && token.hash === hash);
}

async function completeTask(deps: ServiceDeps, token: string, given: string): Promise<CompleteTaskResponse> {
  const parts = parseTokenText(token);
  const resultJson = given === "" ? "null" : given;
  // What the schema says is only for who holds a token of the call.
  checkResult(resultJson, "result_json", undefined);
  checkResult(resultJson, "result_json", await toolOf(deps, parts));
  const { call } = await settle(deps, parts, { type: "result", resultJson });
  return { $typeName: "trunkline.v1.CompleteTaskResponse", callId: formatCallId(call) };
}

async function failTask(deps: ServiceDeps, token: string, answer: Answer): Promise<FailTaskResponse> {
  const { call } = await settle(deps, parseTokenText(token), answer);
  return {
    $typeName: "trunkline.v1.FailTaskResponse",
    callId: formatCallId(call),
    state: toCallState(call.state),
  };
}

async function toolOf(deps: ServiceDeps, parts: TokenParts): Promise<DeclaredTool | undefined> {
  const ref = await refOf(deps, parts);
  const [target] = await findTargets(deps, { projectId: ref.projectId, namespace: null }, [ref]);
  if (target === undefined || target instanceof TrunklineError || !isOf(target.call, parts))
    throw tokenInvalid();
  return target.tool;
}

async function settle(deps: ServiceDeps, parts: TokenParts, answer: Answer): Promise<Applied> {
  const { attempt, secret } = parts;
  try {
    const applied = await deps.exchange.apply(
      await refOf(deps, parts),
      { type: "settle_by_token", attempt, tokenHash: hashToken(secret), answer },
      null,
    );
    checkVerdict(applied);
    return applied;
  } catch (error) {
    // A call that is not there is a token that matches nothing: the two look the same.
    if (error instanceof TrunklineError && error.reason === "NOT_FOUND") throw tokenInvalid();
    throw error;
  }
}

async function getTask(deps: ServiceDeps, token: string): Promise<GetTaskResponse> {
  const parts = parseTokenText(token);
  const [record] = await loadRecords(deps.exchange.db, [await refOf(deps, parts)], { payloads: true });
  if (record === null || record === undefined || !isOf(record.call, parts)) throw tokenInvalid();
  const { call } = record;
  if (isEnded(call))
    throw new TrunklineError("CALL_ENDED", `call ${formatCallId(call)} has ended: ${call.state}`);
  if (call.attempt !== parts.attempt) checkVerdict(staleAttempt(call, parts.attempt));
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
