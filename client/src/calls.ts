import { create } from "@bufbuild/protobuf";
import { SettlementSchema, type Settlement as WireSettlement } from "@trunkline/proto/model";
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
import { toJson } from "./json.js";
import { Page, type PageOptions } from "./page.js";
import { errorFromProblem } from "./problem.js";
import { failureToWire } from "./tasks.js";
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

/** What ends a call from outside its claim. */
export type Settlement =
  | {
      readonly type: "tool.result";
      /** Anything that JSON can carry. Default null. */
      readonly result?: unknown;
      /** The attempt that this settles. Default: the last one when `settle` is called. */
      readonly attempt?: number;
    }
  | {
      readonly type: "tool.error";
      /** What went wrong: a message, or a message with data. */
      readonly error: string | { readonly message: string; readonly data?: unknown };
      /** Whether another attempt makes sense. Under the policy `retry` it is made. Default false. */
      readonly retryable?: boolean;
      /** The attempt that this settles. Default: the last one when `settle` is called. */
      readonly attempt?: number;
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
    const answer = await this.#unary.send(
      (callOptions) => this.#unary.calls.getCall({ call: refToWire(call) }, callOptions),
      options,
    );
    if (answer.call === undefined) throw new TrunklineError("NOT_FOUND", "call: the answer was empty");
    return callFromWire(answer.call);
  }

  /** Calls, newest first. */
  async list(filter: CallFilter = {}): Promise<Page<Call>> {
    const { run, state, tool, namespace, labels, turn, payloads, pageSize, pageToken } = filter;
    const states = state === undefined ? [] : [state].flat();
    const request = {
      runId: run ?? "",
      states: states.map(stateToWire),
      tool: tool ?? "",
      namespace: namespace ?? "",
      labels: { ...labels },
      payloads: payloads ?? false,
      pageSize: pageSize ?? 0,
      pageToken: pageToken ?? "",
      ...(turn !== undefined && { turn }),
    };
    const { calls, nextPageToken } = await this.#unary.send((options) =>
      this.#unary.calls.listCalls(request, options),
    );
    const next = (token: string): Promise<Page<Call>> => this.list({ ...filter, pageToken: token });
    return new Page(calls.map(callFromWire), nextPageToken, next);
  }

  /** Cancels a call; says in which state it is now: `canceled`, or how it had ended before. */
  async cancel(call: CallRef): Promise<CallState> {
    const { state } = await this.#unary.send((options) =>
      this.#unary.calls.cancelCall({ call: refToWire(call) }, options),
    );
    return stateFromWire(state);
  }

  /** Makes a new token for a deferred call whose token was lost. Earlier ones of the attempt stay good. */
  async issueToken(call: CallRef): Promise<{ token: string; expiresAt: Date | undefined }> {
    const { token, expiresAt } = await this.#unary.send((options) =>
      this.#unary.calls.issueToken({ call: refToWire(call) }, options),
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
    const wire = settlementToWire(settlement);
    for (let round = 1; ; round++) {
      const attempt = settlement.attempt ?? (await this.get(call)).attempt;
      const item = { call: refToWire(call), attempt, settlement: wire };
      let sends = 0;
      const { results } = await this.#unary.send((options) => {
        sends++;
        return this.#unary.calls.settleCalls({ items: [item] }, options);
      });
      const [result] = results;
      if (result === undefined) throw new TrunklineError("INTERNAL", "settle: the answer was empty");
      if (result.problem === undefined) return stateFromWire(result.state);
      const error = errorFromProblem(result.problem);
      // The call was claimed between the look and the send, and nothing else was sent: look again.
      const moved = error.reason === "STALE_ATTEMPT" && settlement.attempt === undefined && sends === 1;
      if (!moved || round === SETTLE_ROUNDS) throw error;
    }
  }
}

function settlementToWire(settlement: Settlement): WireSettlement {
  if (settlement.type === "tool.result") {
    const value = toJson(settlement.result === undefined ? null : settlement.result, "result");
    return create(SettlementSchema, { outcome: { case: "resultJson", value } });
  }
  // What comes from JavaScript may be anything.
  const { type }: { type: string } = settlement;
  if (type !== "tool.error") {
    throw new TrunklineError(
      "INVALID_FIELD",
      `type: ${JSON.stringify(type)}; allowed are tool.result, tool.error`,
      { metadata: { field: "type" } },
    );
  }
  const { error, retryable = false } = settlement;
  const said = typeof error === "string" ? { message: error } : error;
  const value = failureToWire({ message: said.message, data: said.data, retryable });
  return create(SettlementSchema, { outcome: { case: "failure", value } });
}
