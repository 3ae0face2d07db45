import { create } from "@bufbuild/protobuf";
import type { SettleResult } from "@trunkline/proto/call";
import { SettlementSchema } from "@trunkline/proto/model";
import { flag, MAX_WHOLE, onlyFields, whole } from "./argument.js";
import {
  callFromWire,
  dateFromWire,
  refToWire,
  stateFromWire,
  stateToWire,
  type Call,
  type CallRef,
  type CallState,
} from "./call.js";
import { TrunklineError } from "./errors.js";
import { Page, pageToWire, type PageOptions } from "./page.js";
import { errorFromProblem, isTransient } from "./problem.js";
import { readSettlement, type Settlement } from "./settlement.js";
import { wellFormed, wellFormedLabels } from "./text.js";
import type { RequestOptions, Unary } from "./unary.js";

/** Which calls to list; what is not set does not matter. */
export interface CallFilter extends PageOptions {
  /** Only calls of this run. */
  readonly run?: string;
  /** Only calls in this state, or in one of these. */
  readonly state?: CallState | readonly CallState[];
  readonly tool?: string;
  /** Only calls of this end user. */
  readonly namespace?: string;
  /** Only calls of runs that have all of these labels. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly turn?: number;
  /** Whether input, result and progress come with them. Default false. */
  readonly payloads?: boolean;
}

const FILTER: Record<keyof CallFilter, true> = {
  run: true,
  state: true,
  tool: true,
  namespace: true,
  labels: true,
  turn: true,
  payloads: true,
  pageSize: true,
  pageToken: true,
};

/** How often `settle` looks for the last attempt when calls are claimed under its hands. */
const SETTLE_ROUNDS = 5;

/** Calls of the project, from any process: `client.calls`. */
export class Calls {
  readonly #unary: Unary;

  /** Use `Trunkline.calls`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /** One call as it stands. */
  async get(call: CallRef, options: RequestOptions = {}): Promise<Call> {
    const ref = refToWire(call);
    const answer = await this.#unary.send(
      (callOptions) => this.#unary.calls.getCall({ call: ref }, callOptions),
      options,
    );
    if (answer.call === undefined) throw new TrunklineError("NOT_FOUND", "call: the answer was empty");
    return callFromWire(answer.call);
  }

  /** Calls, newest first. */
  async list(filter: CallFilter = {}): Promise<Page<Call>> {
    onlyFields(filter, FILTER, "filter");
    const { run = "", state, tool = "", namespace = "", labels = {}, turn, payloads = false } = filter;
    const states = state === undefined ? [] : [state].flat();
    const request = {
      ...pageToWire(filter),
      runId: wellFormed(run, "run"),
      states: states.map((each) => stateToWire(each, "state")),
      tool: wellFormed(tool, "tool"),
      namespace: wellFormed(namespace, "namespace"),
      labels: wellFormedLabels(labels, "labels"),
      payloads: flag(payloads, "payloads"),
      ...(turn !== undefined && { turn: whole(turn, "turn", 0, MAX_WHOLE) }),
    };
    const { calls, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.calls.listCalls(request, options),
    );
    const next = (token: string): Promise<Page<Call>> => this.list({ ...filter, pageToken: token });
    return new Page(calls.map(callFromWire), nextPageToken, next);
  }

  /** Cancels a call; says in which state it is now: `canceled`, or how it had ended before. */
  async cancel(call: CallRef): Promise<CallState> {
    const ref = refToWire(call);
    const { state } = await this.#unary.send((options) =>
      this.#unary.calls.cancelCall({ call: ref }, options),
    );
    return stateFromWire(state);
  }

  /** Makes a new token for a deferred call whose token was lost. Earlier ones of the attempt stay good. */
  async issueToken(call: CallRef): Promise<{ token: string; expiresAt: Date | undefined }> {
    const ref = refToWire(call);
    const { token, expiresAt } = await this.#unary.send((options) =>
      this.#unary.calls.issueToken({ call: ref }, options),
    );
    return { token, expiresAt: dateFromWire(expiresAt) };
  }

  /**
   * Ends a call, or its last attempt, from outside; says in which state it is now. Without `attempt` the
   * last one is read first, so that sending again after a cut cannot hit the attempt after it.
   *
   * @throws TrunklineError STALE_ATTEMPT, CALL_ENDED, NOT_FOUND
   */
  async settle(call: CallRef, settlement: Settlement): Promise<CallState> {
    const ref = refToWire(call);
    const wire = create(SettlementSchema, { outcome: readSettlement(settlement) });
    for (let round = 1; ; round++) {
      const attempt = settlement.attempt ?? (await this.get(call)).attempt;
      const item = { call: ref, attempt, settlement: wire };
      let sends = 0;
      const { error, state } = await this.#unary.send(async (options) => {
        sends++;
        const { results } = await this.#unary.calls.settleCalls({ items: [item] }, options);
        return readSettled(results[0]);
      });
      if (error === undefined) return state;
      // The call was claimed between the look and the send, and nothing else was sent: look again.
      const moved = error.reason === "STALE_ATTEMPT" && settlement.attempt === undefined && sends === 1;
      if (!moved || round === SETTLE_ROUNDS) throw error;
    }
  }
}

/**
 * What became of a settlement; a refusal that is final is told, not thrown.
 *
 * @throws TrunklineError what may pass, so that the same is sent again
 */
function readSettled(result: SettleResult | undefined): {
  error: TrunklineError | undefined;
  state: CallState;
} {
  if (result === undefined) throw new TrunklineError("INTERNAL", "settle: the answer was empty");
  const error = result.problem === undefined ? undefined : errorFromProblem(result.problem);
  if (error !== undefined && isTransient(error)) throw error;
  return { error, state: stateFromWire(result.state) };
}
