import type { Scope } from "../core/scope.js";
import type { Exchange } from "../exchange/exchange.js";
import type { RunRecord } from "../store/runs.js";
import { toolsSeen } from "../store/sessions.js";

/** A worker that was heard within this time may well come back. */
const SEEN_WITHIN_MS = 5 * 60_000;
/** How long an answer is good. */
const FRESH_MS = 10_000;
const KEPT_TOOLS = 10_000;

interface Seen {
  readonly askedAt: number;
  answer: boolean | Promise<boolean>;
}

/** Which tools have had a worker lately, on any node: for the warning that a call may wait for long. */
export class SeenTools {
  readonly #exchange: Exchange;
  readonly #tools = new Map<string, Seen>();

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  /**
   * Whether a worker that may take the run's calls of the tool was heard in the last 5 minutes; at once where this node
   * serves the tool, or has asked in the last 10 s. Never rejects: a question that cannot be answered counts as yes.
   */
  isSeen({ projectId, id: runId, namespace, toolset }: RunRecord, tool: string): boolean | Promise<boolean> {
    if (this.#exchange.dispatch.isServed({ projectId, runId, namespace, tool }, toolset)) return true;
    // Most workers are the whole project's: one question for all its runs.
    const ofProject = this.#ask({ projectId, namespace: null }, tool);
    if (ofProject === true) return true;
    const ofRun = (): boolean | Promise<boolean> => this.#ask({ projectId, namespace, runId }, tool);
    return ofProject === false ? ofRun() : ofProject.then((seen) => seen || ofRun());
  }

  #ask(scope: Scope, tool: string): boolean | Promise<boolean> {
    const key = JSON.stringify([scope, tool]);
    const known = this.#tools.get(key);
    if (known !== undefined && performance.now() - known.askedAt < FRESH_MS) return known.answer;
    const answer = toolsSeen(this.#exchange.db, scope, [tool], SEEN_WITHIN_MS).then(
      (tools) => tools.includes(tool),
      () => true,
    );
    this.#keep(key, { askedAt: performance.now(), answer });
    return answer;
  }

  #keep(key: string, seen: Seen): void {
    void Promise.resolve(seen.answer).then((answer) => (seen.answer = answer));
    this.#tools.delete(key);
    this.#tools.set(key, seen);
    if (this.#tools.size > KEPT_TOOLS) {
      const oldest = this.#tools.keys().next();
      if (oldest.done !== true) this.#tools.delete(oldest.value);
    }
  }
}
