import { dateFromWire, stateFromWire, type CallState } from "./call.js";
import { toJson } from "./json.js";
import { readFailure, type TaskFailure } from "./settlement.js";
import { present } from "./text.js";
import type { Unary } from "./unary.js";

/** What a token's call asks. */
export interface Task {
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
  readonly inputJson: string;
  readonly namespace: string;
  readonly expiresAt: Date | undefined;
}

/**
 * Deferred calls, for whoever holds their tokens: `client.tasks`. A token that fits no deferred call is
 * refused with TOKEN_INVALID, one of an attempt that was replaced with STALE_ATTEMPT.
 */
export class Tasks {
  readonly #unary: Unary;

  /** Use `Trunkline.tasks`. */
  constructor(unary: Unary) {
    this.#unary = unary;
  }

  /** Ends the token's call with a result. The same result again changes nothing. */
  async complete(token: string, value: unknown): Promise<{ callId: string }> {
    const request = { token: present(token, "token"), resultJson: toJson(value, "value") };
    const { callId } = await this.#unary.send((options) => this.#unary.tasks.completeTask(request, options));
    return { callId };
  }

  /** Ends the token's call, or this attempt of it, with a failure; says in which state the call is now. */
  async fail(token: string, failure: TaskFailure): Promise<{ callId: string; state: CallState }> {
    const request = { token: present(token, "token"), failure: readFailure(failure) };
    const { callId, state } = await this.#unary.send((options) =>
      this.#unary.tasks.failTask(request, options),
    );
    return { callId, state: stateFromWire(state) };
  }

  /** What the token's call asks, so that a form can be shown to whoever is to answer. */
  async get(token: string): Promise<Task> {
    const request = { token: present(token, "token") };
    const { callId, tool, inputJson, namespace, expiresAt } = await this.#unary.send((options) =>
      this.#unary.tasks.getTask(request, options),
    );
    const input: unknown = inputJson === "" ? undefined : JSON.parse(inputJson);
    return { callId, tool, input, inputJson, namespace, expiresAt: dateFromWire(expiresAt) };
  }
}
