import { create } from "@bufbuild/protobuf";
import { DeferredSchema, type Ack, type Answer, type Deferral, type Deferred } from "@trunkline/proto/worker";
import type { CallRef, ClaimedCall } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { CallEvent, Verdict } from "../core/event.js";
import { checkJsonText } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import type { Scope } from "../core/scope.js";
import { formatCallId } from "../core/name.js";
import type { Applied } from "../exchange/call-writer.js";
import { loadRecords } from "../store/calls-read.js";
import type { Instant } from "../store/rows.js";
import { fromDuration, toTimestamp } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { checkWorkerAnswer, hashToken, newSecret, parseCallRefId } from "./door.js";
import { isFault, toProblem, toTrunklineError } from "./error-map.js";
import type { DeclaredTool } from "./toolset-catalog.js";

/** A token's secret: 256 bits in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** What became of a worker's item: it counts, or the verdict says why not. */
export interface ItemDone {
  readonly verdict: Verdict;
  /** What a deferral is told. */
  readonly deferred?: Deferred;
}

/**
 * Does the work of one item. Its acknowledgement is for good: it was committed, or says what was wrong (I11).
 *
 * @throws TrunklineError what may pass: then nothing is said of it, and its worker sends it again
 */
export async function acknowledged(
  deps: ServiceDeps,
  claimId: string,
  work: () => Promise<ItemDone>,
): Promise<Ack> {
  const ack: Ack = { $typeName: "trunkline.v1.Ack", claimId };
  try {
    const { verdict, deferred } = await work();
    if (!verdict.ok) ack.problem = toProblem(new TrunklineError(verdict.reason, verdict.message));
    if (deferred !== undefined) ack.deferred = deferred;
  } catch (error) {
    if (isFault(error)) deps.onError(error);
    const refusal = toTrunklineError(error);
    if (refusal.reason === "UNAVAILABLE" || refusal.reason === "OVERLOADED") throw refusal;
    ack.problem = toProblem(error);
  }
  return ack;
}

/** Stores a worker's answer; what is wrong with it fails the call, not the stream. */
export function applyAnswer(
  deps: ServiceDeps,
  scope: Scope,
  held: ClaimedCall | undefined,
  answer: Answer,
): Promise<ItemDone> {
  const ref = refOf(scope, held, answer.callId);
  const tool = toolOf(deps, scope, ref, held);
  // Asked for its place at once: what the same frame says after it, or does not say, comes after it.
  const event =
    tool instanceof Promise ? tool.then((found) => answerEvent(answer, found)) : answerEvent(answer, tool);
  return deps.exchange.apply(ref, event, scope);
}

function answerEvent(answer: Answer, tool: DeclaredTool | undefined): CallEvent {
  return { type: "answer", claimId: answer.claimId, answer: checkWorkerAnswer(answer, tool) };
}

/** The call's tool, where its run has a toolset: at once where this node knows both, as it does nearly always. */
function toolOf(
  deps: ServiceDeps,
  scope: Scope,
  ref: CallRef,
  held: ClaimedCall | undefined,
): DeclaredTool | undefined | Promise<DeclaredTool | undefined> {
  const run = deps.exchange.runs.peek(scope, ref.runId);
  const tools = run === undefined ? undefined : deps.catalog.tools(run);
  if (tools === null) return undefined;
  if (held === undefined || tools === undefined || tools instanceof Promise) {
    return findTool(deps, scope, ref, held);
  }
  return tools.get(held.tool);
}

/** A claim that lapsed is not held here any more, and yet counts. */
async function findTool(
  { exchange, catalog }: ServiceDeps,
  scope: Scope,
  ref: CallRef,
  held: ClaimedCall | undefined,
): Promise<DeclaredTool | undefined> {
  const run = await exchange.runs.get(scope, ref.runId);
  const tools = run === undefined ? null : await catalog.tools(run);
  if (tools === null) return undefined;
  const call = held ?? (await exchange.load(ref));
  return call === undefined ? undefined : tools.get(call.tool);
}

/** Hands back a claim that was not started; of a stream's the call is known only while the claim is held. */
export function applyRelease(
  deps: ServiceDeps,
  scope: Scope,
  ref: CallRef | undefined,
  claimId: string,
): Promise<ItemDone> {
  if (ref === undefined) throw new TrunklineError("CLAIM_LOST", `claim ${claimId} is no longer held`);
  return deps.exchange.apply(ref, { type: "release", claimId }, scope);
}

/** Stores a deferral; the reply says when it times out. */
export async function applyDeferral(
  deps: ServiceDeps,
  scope: Scope,
  held: ClaimedCall | undefined,
  deferral: Deferral,
): Promise<ItemDone> {
  const ref = refOf(scope, held, deferral.callId);
  if (deferral.secret !== "" && !SECRET.test(deferral.secret)) {
    throw new TrunklineError(
      "INVALID_FIELD",
      "secret is malformed; allowed are 43 characters of base64url (256 bits), or none",
      { metadata: { field: "secret" } },
    );
  }
  const secret = deferral.secret === "" ? newSecret() : deferral.secret;
  const applied = await deps.exchange.apply(
    ref,
    {
      type: "defer",
      claimId: deferral.claimId,
      tokenHash: hashToken(secret),
      timeoutMs: deferral.timeout === undefined ? null : fromDuration(deferral.timeout, "timeout"),
    },
    scope,
  );
  if (!applied.verdict.ok) return applied;
  const { expiresAt, runExpiresAt } = await deferralTimes(deps, scope, applied);
  const cutToRun = runExpiresAt !== null && (expiresAt === null || runExpiresAt < expiresAt);
  const ends = cutToRun ? runExpiresAt : expiresAt;
  const deferred = create(DeferredSchema, {
    token: deferral.secret === "" ? `${formatCallId(ref)}.${String(applied.call.attempt)}.${secret}` : "",
    ...(ends === null ? {} : { expiresAt: toTimestamp(ends) }),
    cutToRun: cutToRun && expiresAt !== null,
  });
  return { verdict: applied.verdict, deferred };
}

async function deferralTimes(
  deps: ServiceDeps,
  scope: Scope,
  applied: Applied,
): Promise<{ readonly expiresAt: Instant | null; readonly runExpiresAt: Instant | null }> {
  const run = deps.exchange.runs.peek(scope, applied.call.runId);
  if (applied.committed !== null && run !== undefined) {
    return { expiresAt: applied.committed.times.deferTimeoutAt, runExpiresAt: run.record.expiresAt };
  }
  const [record] = await loadRecords(deps.exchange.db, [applied.call], { payloads: false });
  return { expiresAt: record?.deferTimeoutAt ?? null, runExpiresAt: record?.runExpiresAt ?? null };
}

/** Progress is for display: what cannot be stored is left out. */
export function isGoodProgress({ progressJson }: { readonly progressJson: string }): boolean {
  try {
    checkJsonText(progressJson, "progress_json", { maxBytes: LIMITS.progressBytes });
    return true;
  } catch {
    return false;
  }
}

function refOf(scope: Scope, held: ClaimedCall | undefined, callId: string): CallRef {
  return held ?? { projectId: scope.projectId, ...parseCallRefId(callId) };
}
