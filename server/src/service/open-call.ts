import type { CallSpec, Opened } from "@trunkline/proto/call";
import type { Quotas } from "../access/quotas.js";
import { isEnded, type Call } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { formatCallId, isUuid } from "../core/name.js";
import type { Caller } from "../core/caller.js";
import type { Scope } from "../core/scope.js";
import type { OpenOutcome, OpenRequest } from "../exchange/opener.js";
import type { KnownRun } from "../exchange/runs.js";
import { loadRecords } from "../store/calls-read.js";
import type { Instant } from "../store/rows.js";
import type { ServiceDeps } from "./deps.js";
import { checkCallSpec } from "./door.js";
import type { ToolTable } from "./toolset-catalog.js";

/** An open that was stored, with the reply to it. */
export interface OpenedCall {
  /** Its `request` is 0; the caller fills it in. */
  readonly opened: Opened;
  /** `created` only for a call that nothing can have happened to yet. */
  readonly outcome: OpenOutcome;
}

/**
 * Opens one call; resolves after its commit. Where this node knows the run and its toolset, the call has its
 * number when this returns, so that calls are numbered in the order of asking, and go into one batch.
 *
 * @param field what the spec is called in messages, as `calls[3]`
 * @throws TrunklineError (always as a rejection) what `checkCallSpec` and `Exchange.open` throw; NOT_FOUND for the run
 */
export function openCall(
  deps: ServiceDeps,
  caller: Caller,
  runId: string,
  spec: CallSpec | undefined,
  field: string,
): Promise<OpenedCall> {
  const run = deps.exchange.runs.peek(caller.scope, runId);
  const tools = run === undefined ? undefined : deps.catalog.tools(run);
  if (run === undefined || tools === undefined || tools instanceof Promise) {
    return openLater(deps, caller, runId, spec, field);
  }
  return openIn(deps, caller, { run, tools, spec, field });
}

async function openLater(
  deps: ServiceDeps,
  caller: Caller,
  runId: string,
  spec: CallSpec | undefined,
  field: string,
): Promise<OpenedCall> {
  const run = await knownRun(deps, caller.scope, runId);
  return openIn(deps, caller, { run, tools: await deps.catalog.tools(run), spec, field });
}

/**
 * A run of this scope.
 *
 * @throws TrunklineError NOT_FOUND
 */
export async function knownRun({ exchange }: ServiceDeps, scope: Scope, runId: string): Promise<KnownRun> {
  const run = isUuid(runId) ? await exchange.runs.get(scope, runId) : undefined;
  if (run === undefined) throw noRun(runId);
  return run;
}

/** The error for a run that is missing, or somebody else's: the two look the same (I7). */
export function noRun(runId: string): TrunklineError {
  return new TrunklineError("NOT_FOUND", `there is no run ${quoted(runId, 80)}`, {
    metadata: { field: "run_id" },
  });
}

/** A call that is to be opened, in a run whose tools are known. */
interface Opening {
  readonly run: KnownRun;
  readonly tools: ToolTable | null;
  readonly spec: CallSpec | undefined;
  readonly field: string;
}

async function openIn(
  deps: ServiceDeps,
  caller: Caller,
  { run, tools, spec, field }: Opening,
): Promise<OpenedCall> {
  const { exchange } = deps;
  const request = checkCallSpec(
    spec,
    { run, tools, heartbeatIntervalMs: exchange.heartbeatIntervalMs },
    field,
  );
  // Both are under way before either is waited for: the order of opens is the order of asking.
  const seen = request.executor === "client" || deps.seenTools.isSeen(run.record, request.tool);
  const opening =
    deps.quotas === null ? exchange.open(request) : openWithin(deps.quotas, exchange, caller, request);
  if (typeof seen !== "boolean") return openedLater(exchange, run, opening, seen);
  const outcome = await opening;
  return { outcome, opened: toOpened(outcome, run, seen) };
}

/** What was opened, where it is to be read first whether there is a worker for it. */
async function openedLater(
  exchange: ServiceDeps["exchange"],
  run: KnownRun,
  opening: Promise<OpenOutcome>,
  asked: Promise<boolean>,
): Promise<OpenedCall> {
  let seen: boolean | undefined;
  void asked.then((answer) => (seen = answer));
  const outcome = await opening;
  if (seen !== undefined) return { outcome, opened: toOpened(outcome, run, seen) };
  const opened = toOpened(outcome, run, await asked);
  return { opened, outcome: await lookAgain(exchange, outcome) };
}

/** As the exchange opens it, if nobody has too much. */
async function openWithin(
  quotas: Quotas,
  exchange: ServiceDeps["exchange"],
  caller: Caller,
  request: OpenRequest,
): Promise<OpenOutcome> {
  const endUser = request.run.record;
  const counted = quotas.openCall(caller, endUser);
  if (counted !== undefined) await counted;
  let stored = false;
  try {
    const outcome = await exchange.open(request);
    stored = outcome.type === "created";
    return outcome;
  } finally {
    quotas.opened(endUser, stored);
  }
}

/** The call as it stands now, when something may have happened to it since its commit. */
async function lookAgain({ db }: ServiceDeps["exchange"], outcome: OpenOutcome): Promise<OpenOutcome> {
  if (outcome.type === "exists") return outcome;
  const [record] = await loadRecords(db, [outcome.call], { payloads: true });
  return record === null || record === undefined ? outcome : { type: "exists", record };
}

function toOpened(outcome: OpenOutcome, run: KnownRun, seen: boolean): Opened {
  const created = outcome.type === "created";
  const call = created ? outcome.call : outcome.record.call;
  const openedAt = created ? outcome.openedAt : outcome.record.openedAt;
  return {
    $typeName: "trunkline.v1.Opened",
    request: 0,
    callId: formatCallId(call),
    key: call.key,
    created,
    noWorker: !seen && !isEnded(call),
    cutToRun: outlastsRun(call, openedAt, run.record.expiresAt),
  };
}

/** Whether one of the call's limits, counted from its opening, ends after its run. */
function outlastsRun({ policy }: Call, openedAt: Instant, expiresAt: Instant | null): boolean {
  if (expiresAt === null) return false;
  const { attemptTimeoutMs, totalTimeoutMs, deferTimeoutMs } = policy;
  const longestMs = Math.max(attemptTimeoutMs ?? 0, totalTimeoutMs ?? 0, deferTimeoutMs ?? 0);
  return openedAt + longestMs * 1_000 > expiresAt;
}
