import type { OpenCall, WaitCallsRequest, WaitCallsResponse } from "@trunkline/proto/call";
import { isEnded, type Call, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { formatCallId, isUuid } from "../core/name.js";
import type { Caller } from "../core/caller.js";
import type { Scope } from "../core/scope.js";
import { isWithin, notFound } from "../exchange/call-writer.js";
import type { Outcome } from "../exchange/delivery.js";
import { loadRecords, readTurn } from "../store/calls-read.js";
import { resolveRefs } from "./call-refs.js";
import { fromDuration, toOutcomeMessage } from "./convert.js";
import { toCallState } from "./convert-enum.js";
import type { ServiceDeps } from "./deps.js";
import { parseCallRefId } from "./door.js";
import { checkCount, invalidField } from "./door-field.js";
import { noRun } from "./open-call.js";
import { outcomeBytes, readOutcomes } from "./outcome-page.js";
import { PAGE_PAYLOAD_BYTES } from "./page-token.js";
import { RequestWait } from "./request-wait.js";

const DEFAULT_WAIT_MS = 30_000;
const MAX_WAIT_MS = 60_000;
const MAX_INT32 = 2 ** 31 - 1;

/**
 * Waits until calls of one run, or all calls of a turn, have ended, or the time has passed. Registers first and
 * then reads, so that no end is missed; a turn counts as settled only by one statement that counts what is open
 * (I8). Holds neither a connection nor more than one timer.
 *
 * @throws TrunklineError NOT_FOUND for a call or turn that is not there; INVALID_FIELD; ConnectError CANCELED
 */
export async function waitCalls(
  deps: ServiceDeps,
  caller: Caller,
  request: WaitCallsRequest,
  signal: AbortSignal,
): Promise<WaitCallsResponse> {
  const { scope } = caller;
  const { turn, calls, timeout } = request;
  const waitMs =
    timeout === undefined
      ? DEFAULT_WAIT_MS
      : fromDuration(timeout, "timeout", { minMs: 0, maxMs: MAX_WAIT_MS });
  const afterSeq = Math.min(request.afterSeq, MAX_INT32);
  if (turn !== undefined && calls.length > 0) {
    throw new TrunklineError("INVALID_FIELD", "calls and turn are both set; allowed is one of them", {
      metadata: { field: "turn" },
    });
  }
  const refs = turn === undefined ? await namedCalls(deps, scope, request) : [];
  const wait = new RequestWait(waitMs, signal, deps.streams, caller);
  try {
    return turn === undefined
      ? await new CallsWait(deps, scope, refs, wait).run(afterSeq)
      : await waitTurn(deps, scope, { runId: request.runId, turn, afterSeq }, wait);
  } finally {
    wait.stop();
  }
}

/** The calls of a request, each once, in seq order. */
async function namedCalls(deps: ServiceDeps, scope: Scope, { calls }: WaitCallsRequest): Promise<CallRef[]> {
  checkCount(calls.length, "calls", LIMITS.callsPerRequest);
  const resolved = await resolveRefs(deps, scope, calls, (index) => `calls[${String(index)}]`);
  const refs = new Map<string, CallRef>();
  let firstRun: string | undefined;
  resolved.forEach((ref, index) => {
    if (ref instanceof TrunklineError) throw ref;
    firstRun ??= ref.runId;
    if (ref.runId !== firstRun) {
      throw invalidField(`calls[${String(index)}]`, formatCallId(ref), "are calls of one run");
    }
    refs.set(formatCallId(ref), ref);
  });
  return [...refs.values()].sort((a, b) => a.seq - b.seq);
}

/** One request that waits for calls. */
class CallsWait {
  readonly #deps: ServiceDeps;
  readonly #scope: Scope;
  readonly #refs: readonly CallRef[];
  readonly #wait: RequestWait;
  readonly #pending: Map<string, CallRef>;
  /** Outcomes that came during the wait, as many as one page holds. */
  readonly #told = new Map<string, Outcome>();
  /** The pending calls as they were read last. */
  #looked = new Map<string, Call>();
  #toldBytes = 0;

  constructor(deps: ServiceDeps, scope: Scope, refs: readonly CallRef[], wait: RequestWait) {
    this.#deps = deps;
    this.#scope = scope;
    this.#refs = refs;
    this.#wait = wait;
    this.#pending = new Map(refs.map((ref) => [formatCallId(ref), ref]));
  }

  async run(afterSeq: number): Promise<WaitCallsResponse> {
    const { waiters } = this.#deps.exchange;
    for (const ref of this.#refs) waiters.add(ref, this, this.#scope);
    try {
      await this.#look();
      while (this.#pending.size > 0 && (await this.#wait.next()));
      // What ended on another node may not have been heard of yet.
      if (this.#pending.size > 0) await this.#look();
      return await this.#respond(afterSeq);
    } finally {
      for (const ref of this.#refs) waiters.remove(ref, this);
    }
  }

  outcome(outcome: Outcome): void {
    const key = formatCallId(outcome.call);
    this.#pending.delete(key);
    this.#toldBytes += outcomeBytes(toOutcomeMessage(outcome));
    if (this.#toldBytes <= PAGE_PAYLOAD_BYTES) this.#told.set(key, outcome);
    if (this.#pending.size === 0) this.#wait.poke();
  }

  /** Reads the pending calls as they stand. */
  async #look(): Promise<void> {
    const refs = [...this.#pending.values()];
    const records = await loadRecords(this.#deps.exchange.db, refs, { payloads: false });
    this.#looked = new Map();
    refs.forEach((ref, index) => {
      const call = records[index]?.call;
      if (call === undefined || !isWithin(call, this.#scope)) throw notFound(ref);
      if (isEnded(call)) this.#pending.delete(formatCallId(ref));
      else this.#looked.set(formatCallId(ref), call);
    });
  }

  async #respond(afterSeq: number): Promise<WaitCallsResponse> {
    const pending = new Set(this.#pending.keys());
    const open = [...this.#looked].filter(([key]) => pending.has(key)).map(([, call]) => call);
    const ended = this.#refs.filter((ref) => !pending.has(formatCallId(ref)) && ref.seq > afterSeq);
    const { outcomes, more } = await readOutcomes(this.#deps.exchange.db, ended, this.#told);
    return toResponse(open, outcomes, more);
  }
}

/** One request that waits for a turn. */
async function waitTurn(
  { exchange }: ServiceDeps,
  scope: Scope,
  { runId, turn, afterSeq }: { readonly runId: string; readonly turn: number; readonly afterSeq: number },
  wait: RequestWait,
): Promise<WaitCallsResponse> {
  if (!isUuid(runId)) throw noRun(runId);
  if (turn > MAX_INT32) throw invalidField("turn", turn, `is 0 to ${String(MAX_INT32)}`);
  const read = (after: number): ReturnType<typeof readTurn> =>
    readTurn(exchange.db, scope, runId, turn, after, PAGE_PAYLOAD_BYTES);
  const leave = exchange.waiters.addTurn(runId, turn, { turnMoved: () => wait.poke() });
  try {
    for (;;) {
      const page = await read(afterSeq);
      if (page.total === 0) {
        throw new TrunklineError("NOT_FOUND", `there is no turn ${String(turn)} in run ${runId}`, {
          metadata: { field: "turn" },
        });
      }
      if (page.open.length === 0 || wait.isOver) {
        const open = page.open.slice(0, LIMITS.pageItems).map(({ call }) => call);
        return toResponse(open, page.outcomes.map(toOutcomeMessage), page.more);
      }
      // Until nothing is open, a look is after no outcomes.
      while ((await wait.next()) && (await read(MAX_INT32)).open.length > 0);
    }
  } finally {
    leave();
  }
}

function toResponse(
  open: readonly Call[],
  outcomes: WaitCallsResponse["outcomes"],
  more: boolean,
): WaitCallsResponse {
  const last = outcomes.at(-1);
  return {
    $typeName: "trunkline.v1.WaitCallsResponse",
    settled: open.length === 0,
    outcomes,
    open: open.map(toOpenCall),
    nextAfterSeq: more && last !== undefined ? parseCallRefId(last.callId).seq : 0,
  };
}

function toOpenCall(call: Call): OpenCall {
  return {
    $typeName: "trunkline.v1.OpenCall",
    callId: formatCallId(call),
    key: call.key,
    tool: call.tool,
    state: toCallState(call.state),
  };
}
