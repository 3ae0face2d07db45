import { checkSignal, onlyFields } from "./argument.js";
import type { Call, CallState, Outcome } from "./call.js";
import type { Calls } from "./calls.js";
import type { OpenedCall } from "./drive.js";

/** How to wait for an outcome. */
export interface OutcomeOptions {
  /** Aborting it ends the wait, not the call; the wait then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

const OUTCOME_OPTIONS: Record<keyof OutcomeOptions, true> = { signal: true };

/** A call that is stored, in the process that opened it. */
export class CallHandle {
  /** `{runId}/{seq}`: also the idempotency key. */
  readonly id: string;
  /** The caller's key, or the one that the SDK has made. */
  readonly key: string;
  /** False when the key named a call that was there already. */
  readonly created: boolean;
  readonly #opened: OpenedCall;
  readonly #calls: Calls;

  /** Use `run.open`. */
  constructor(opened: OpenedCall, calls: Calls) {
    this.id = opened.callId;
    this.key = opened.key;
    this.created = opened.created;
    this.#opened = opened;
    this.#calls = calls;
  }

  /**
   * How the call ends; waits for that as long as it takes, across restarts of the server. A failure of the
   * tool is an outcome, not an error.
   */
  async outcome(options: OutcomeOptions = {}): Promise<Outcome> {
    onlyFields(options, OUTCOME_OPTIONS, "options");
    checkSignal(options.signal);
    return this.#opened.outcome(options.signal);
  }

  /** Cancels the call; says in which state it is now: `canceled`, or how it had ended before. */
  cancel(): Promise<CallState> {
    return this.#calls.cancel(this.id);
  }

  /** The call as it stands. */
  status(): Promise<Call> {
    return this.#calls.get(this.id);
  }
}
