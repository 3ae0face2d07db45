import { inspect } from "node:util";
import { readAgent, readStarted, SESSION_START, workerTools, type Agent } from "./agent.js";
import { onlyFields, refuseArgument } from "./argument.js";
import type { ToolContext } from "./context.js";
import { inDecide, readDecision, type Decision, type Proposed } from "./decision-reading.js";
import { callTrigger, startTrigger, type Trigger } from "./decision-trigger.js";
import { InvalidAnswerError } from "./failure.js";
import type { ToolHandler } from "./handler.js";
import { checkHandlers } from "./handler-table.js";
import { typeOf } from "./text.js";
import { callUser } from "./user-callback.js";
import type { StopOptions, Worker, WorkerOptions } from "./worker.js";
import type { WorkerStatus } from "./worker-status.js";

/** Decides what a trigger comes to. What it throws fails the call, a `HostToolError` as a handler's does. */
export type Decide = (asked: {
  readonly trigger: Trigger;
  readonly proposed: Proposed;
}) => Decision | Promise<Decision>;

/** What a worker that decides is made of. */
export interface DecisionsOptions extends Omit<WorkerOptions, "tools" | "toolset"> {
  /**
   * Asked for the agent of every session that starts, and for every call of its tools; and once for an agent as the
   * worker starts (see {@link SessionStartTrigger}), whose tools it then serves.
   */
  readonly decide: Decide;
  /** What is proposed for `session.start`; its tools are served from the start. Default: nothing is. */
  readonly agent?: Agent;
  /** What is proposed for `tool.execute`: the tool's handler, which runs when `proposed` is returned. */
  readonly tools?: WorkerOptions["tools"];
  /** Further tools to serve from the start, which no agent has named to this worker yet. */
  readonly serve?: readonly string[];
}

const OPTIONS: Record<keyof DecisionsOptions, true> = {
  decide: true,
  agent: true,
  tools: true,
  serve: true,
  concurrency: true,
  name: true,
  signal: true,
  onError: true,
  onStatus: true,
  pollWait: true,
};

const PROPOSED: Proposed = Object.freeze({ type: "proposed" });

/** Makes the worker that carries the decisions. */
export type MakeWorker = (options: WorkerOptions) => Worker;

/**
 * A worker whose calls are all decided by one function. Made by `Trunkline.decisions`; it starts at once. It serves
 * the tools that it was given, and those of every agent that it has answered `session.start` with.
 */
export class Decisions {
  readonly #options: DecisionsOptions;
  readonly #handlers: ReadonlyMap<string, ToolHandler>;
  readonly #worker: Worker;
  readonly #stopped = new AbortController();

  /** Use `Trunkline.decisions`. */
  constructor(options: DecisionsOptions, makeWorker: MakeWorker) {
    onlyFields(options, OPTIONS, "options");
    const { decide, agent, tools = {}, serve = [], ...rest } = options;
    const given: unknown = decide;
    if (typeof given !== "function") {
      throw refuseArgument("decide", typeOf(given), "allowed is a function");
    }
    this.#options = options;
    this.#handlers = checkHandlers(tools);
    const further: unknown = serve;
    if (!Array.isArray(further)) throw refuseArgument("serve", typeOf(further), "allowed are names of tools");
    const named = [...this.#handlers.keys(), ...serve, ...(agent ? workerTools(readAgent(agent)) : [])];
    if (named.includes(SESSION_START)) {
      throw refuseArgument("tools", SESSION_START, "it is reserved; allowed are other names");
    }
    this.#worker = makeWorker({
      ...rest,
      tools: { [SESSION_START]: (input, context) => this.#start(input, context), ...this.#executors(named) },
    });
    const stopped = (): void => this.#stopped.abort();
    this.#worker.done.then(stopped, stopped);
    void this.#learn();
  }

  /** For people. */
  get name(): string {
    return this.#worker.name;
  }

  /** The tools that it serves, `session.start` first. */
  get tools(): readonly string[] {
    return this.#worker.tools;
  }

  /** As a {@link Worker}'s. */
  get status(): WorkerStatus {
    return this.#worker.status;
  }

  /** As a {@link Worker}'s. */
  get done(): Promise<void> {
    return this.#worker.done;
  }

  /** As a {@link Worker}'s. */
  stop(options: StopOptions = {}): Promise<void> {
    return this.#worker.stop(options);
  }

  /** Stops the worker at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Shows its name and its tools. */
  [inspect.custom](): string {
    return `Decisions(${this.name}: ${this.tools.join(", ")})`;
  }

  #executors(names: readonly string[]): Record<string, ToolHandler> {
    return Object.fromEntries(
      names.map((name): [string, ToolHandler] => [name, (input, context) => this.#execute(input, context)]),
    );
  }

  /** Serves an agent's tools as well, from now on. */
  #serve(agent: Agent): void {
    const known = new Set(this.#worker.tools);
    this.#worker.add(this.#executors(workerTools(agent).filter((name) => !known.has(name))));
  }

  /** Asks which tools there are, before anybody calls them. */
  async #learn(): Promise<void> {
    const trigger = startTrigger(this.#stopped.signal);
    try {
      const decided = readDecision(await this.#options.decide({ trigger, proposed: PROPOSED }), trigger);
      if (decided.kind === "result") this.#serve(inDecide(() => readStarted(decided.result)));
    } catch (error) {
      const { onError = console.error } = this.#options;
      callUser("onError", () => onError(error));
    }
  }

  async #start(input: unknown, context: ToolContext): Promise<unknown> {
    const trigger = callTrigger(input, context);
    const decided = readDecision(await this.#options.decide({ trigger, proposed: PROPOSED }), trigger);
    switch (decided.kind) {
      case "open":
        return context.defer();
      case "error":
        throw decided.error;
      case "proposed": {
        const { agent } = this.#options;
        if (agent !== undefined) return { agent };
        throw new InvalidAnswerError(
          "decide returned what is proposed, and no agent is in the worker's options",
        );
      }
      case "result": {
        const agent = inDecide(() => readStarted(decided.result));
        // First: who sees the answer may call its tools at once.
        this.#serve(agent);
        return { agent };
      }
    }
  }

  async #execute(input: unknown, context: ToolContext): Promise<unknown> {
    const trigger = callTrigger(input, context);
    const decided = readDecision(await this.#options.decide({ trigger, proposed: PROPOSED }), trigger);
    switch (decided.kind) {
      case "open":
        return context.defer();
      case "result":
        return decided.result;
      case "error":
        throw decided.error;
      case "proposed": {
        const handler = this.#handlers.get(context.tool);
        if (handler !== undefined) return handler(input, context);
        const message = `decide returned what is proposed, and ${context.tool} has no handler in the worker's options`;
        throw new InvalidAnswerError(message);
      }
    }
  }
}
