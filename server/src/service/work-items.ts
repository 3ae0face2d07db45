import { create } from "@bufbuild/protobuf";
import { DeferredSchema, type Answer, type Deferral, type Deferred } from "@trunkline/proto/worker";
import type { CallRef, ClaimedCall } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { CallEvent } from "../core/event.js";
import type { Scope } from "../core/scope.js";
import { callKey } from "../exchange/call-key.js";
import type { Applied } from "../exchange/call-writer.js";
import { loadRecords } from "../store/calls-read.js";
import type { Instant } from "../store/rows.js";
import { fromDuration, toTimestamp } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { checkWorkerAnswer, hashToken, newSecret, parseCallRefId } from "./door.js";
import type { DeclaredTool } from "./toolset-catalog.js";

/** A token's secret: 256 bits in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** Stores a worker's answer; what is wrong with it fails the call, not the stream. */
export async function applyAnswer(
  deps: ServiceDeps,
  scope: Scope,
  held: ClaimedCall | undefined,
  answer: Answer,
): Promise<undefined> {
  const ref = refOf(scope, held, answer.callId);
  // Asked for its place at once: what the same frame says after it, or does not say, comes after it.
  done(await deps.exchange.apply(ref, answerEvent(deps, scope, ref, held, answer), scope));
}

async function answerEvent(
  deps: ServiceDeps,
  scope: Scope,
  ref: CallRef,
  held: ClaimedCall | undefined,
  answer: Answer,
): Promise<CallEvent> {
  const tool = await toolOf(deps, scope, ref, held);
  return { type: "answer", claimId: answer.claimId, answer: checkWorkerAnswer(answer, tool) };
}

/** The call's tool, where its run has a toolset; a claim that lapsed is not held here any more, and yet counts. */
async function toolOf(
  { exchange, catalog }: ServiceDeps,
  scope: Scope,
  ref: CallRef,
  held: ClaimedCall | undefined,
): Promise<DeclaredTool | undefined> {
  const run = exchange.runs.peek(scope, ref.runId) ?? (await exchange.runs.get(scope, ref.runId));
  const tools = run === undefined ? null : await catalog.tools(run);
  if (tools === null) return undefined;
  const call = held ?? (await exchange.load(ref));
  return call === undefined ? undefined : tools.get(call.tool);
}

/** Hands back a claim that was not started. */
export async function applyRelease(
  deps: ServiceDeps,
  scope: Scope,
  held: ClaimedCall | undefined,
  claimId: string,
): Promise<undefined> {
  if (held === undefined) throw new TrunklineError("CLAIM_LOST", `claim ${claimId} is no longer held`);
  done(await deps.exchange.apply(held, { type: "release", claimId }, scope));
}

/** Stores a deferral; the reply says when it times out. */
export async function applyDeferral(
  deps: ServiceDeps,
  scope: Scope,
  held: ClaimedCall | undefined,
  deferral: Deferral,
): Promise<Deferred> {
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
  done(applied);
  const { expiresAt, runExpiresAt } = await deferralTimes(deps, scope, applied);
  const cutToRun = runExpiresAt !== null && (expiresAt === null || runExpiresAt < expiresAt);
  const ends = cutToRun ? runExpiresAt : expiresAt;
  return create(DeferredSchema, {
    token: deferral.secret === "" ? `${callKey(ref)}.${String(applied.call.attempt)}.${secret}` : "",
    ...(ends === null ? {} : { expiresAt: toTimestamp(ends) }),
    cutToRun: cutToRun && expiresAt !== null,
  });
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

function refOf(scope: Scope, held: ClaimedCall | undefined, callId: string): CallRef {
  return held ?? { projectId: scope.projectId, ...parseCallRefId(callId) };
}

function done({ verdict }: Applied): void {
  if (!verdict.ok) throw new TrunklineError(verdict.reason, verdict.message);
}
