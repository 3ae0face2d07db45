import type { CallSpec } from "@trunkline/proto/call";
import { checkSignal, MAX_WHOLE, onlyFields, whole } from "./argument.js";
import { CallHandle } from "./call-handle.js";
import type { Calls } from "./calls.js";
import type { DefinedToolset } from "./define-toolset.js";
import type { Drive } from "./drive.js";
import { ToolError } from "./errors.js";
import { toJson } from "./json.js";
import { policyToWire, type Policy } from "./policy.js";
import type { RunInfo } from "./run-info.js";
import type { Runs } from "./runs.js";
import { present, wellFormed } from "./text.js";
import type { ToolCallers, ToolDefinitions } from "./tool-definition.js";
import { toolsProxy, type ToolProxy } from "./tools-proxy.js";
import { Turn } from "./turn.js";
import type { Unary } from "./unary.js";
import { watchRun, type RunEvent, type WatchOptions, type WatchPort } from "./watch.js";

/** How a call is opened. */
export interface OpenOptions {
  /**
   * The caller's own name for the call, unique in its run, 1 to 256 bytes: the same key with the same content
   * names the same call, from any process. The content is the tool, the input as JSON text (so in the order of
   * its fields), the turn, the policy and the priority. Default: a key that the SDK makes, so that sending again
   * after a cut opens no second call.
   */
  readonly key?: string;
  /** Groups the calls of one model decision. */
  readonly turn?: number;
  /** Replaces the tool's policy field by field. */
  readonly policy?: Policy;
  /** Higher is claimed first, -100 to 100. Default 0. */
  readonly priority?: number;
  /** W3C trace context of the caller. */
  readonly traceparent?: string;
  /** Aborting it cancels the call, wherever it is, and ends the wait with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What a {@link Run} needs of its client. */
export interface RunPort {
  readonly drive: Drive;
  readonly unary: Unary;
  readonly calls: Calls;
  readonly runs: Runs;
  readonly watching: WatchPort;
}

/** One execution of a harness. Any process can make a handle for it: `client.runs.open(id)`. */
export class Run {
  readonly id: string;
  /** The run as it was when it was made; undefined for `runs.open`. */
  readonly info: RunInfo | undefined;
  readonly #port: RunPort;

  /** Use `client.runs`. */
  constructor(id: string, info: RunInfo | undefined, port: RunPort) {
    this.id = id;
    this.info = info;
    this.#port = port;
  }

  /**
   * Calls a tool and waits for its result as long as it takes, across restarts of the server. The type of
   * the result is the caller's word: the wire does not know it.
   *
   * @throws ToolError when the call did not succeed
   * @throws TrunklineError when it could not be opened: input that JSON cannot carry, SCHEMA_VIOLATION,
   *   TOOL_UNKNOWN, RUN_ENDED, KEY_REUSED, a refused key
   */
  async call<T = unknown>(tool: string, input?: unknown, options: OpenOptions = {}): Promise<T> {
    const spec = specOf(tool, input, options);
    const outcome = await this.#port.drive.call(this.id, spec, options.signal);
    if (outcome.state !== "succeeded") throw new ToolError(outcome.callId, outcome.error);
    // The caller's word, as said above.
    return outcome.result as T;
  }

  /**
   * Opens a call and resolves when the server has stored it; its end may be waited for, or not.
   *
   * @throws TrunklineError as `call` does
   */
  async open(tool: string, input?: unknown, options: OpenOptions = {}): Promise<CallHandle> {
    const spec = specOf(tool, input, options);
    const opened = await this.#port.drive.open(this.id, spec, options.signal);
    return new CallHandle(opened, this.#port.calls);
  }

  /**
   * The run's tools as functions: `run.tools<{ crm: { find_customer(input: Q): Customer } }>()` has
   * `tools.crm.find_customer({ email })`, which is `run.call("crm.find_customer", { email })`. With a toolset of
   * `defineToolset`, `run.tools(crm)`, the types are its own.
   */
  tools<T>(): ToolProxy<T, OpenOptions>;
  tools<Tools extends ToolDefinitions>(toolset: DefinedToolset<Tools>): ToolCallers<Tools>;
  tools(): unknown {
    return toolsProxy<OpenOptions>((tool, input, options) => this.call(tool, input, options));
  }

  /** The calls of one model decision. */
  turn(number: number): Turn {
    return new Turn(this.id, whole(number, "turn", 0, MAX_WHOLE), this.#port.unary, (tool, input, options) =>
      this.open(tool, input, options),
    );
  }

  /**
   * The run and its calls as they stand, in the order of their numbers, then each again whenever it has changed; ends
   * once the run and all of its calls have ended. Goes on over cuts and restarts for as long as it takes. States may
   * be left out in between, never the last; after a cut one may come again, and never an older one.
   *
   * @throws TrunklineError while iterating: NOT_FOUND, INVALID_FIELD for a cursor that is none, a refused key, CLOSED;
   *   the signal's reason
   */
  watch(options: WatchOptions = {}): AsyncIterable<RunEvent> {
    return watchRun(this.#port.watching, this.id, options);
  }

  /** Ends the run: its open calls are canceled, and no call is opened in it from now on. Again is fine. */
  async end(): Promise<void> {
    await this.#port.runs.end(this.id);
  }
}

const MAX_PRIORITY = 100;

const OPTIONS: Record<keyof OpenOptions, true> = {
  key: true,
  turn: true,
  policy: true,
  priority: true,
  traceparent: true,
  signal: true,
};

/** What opens a call; throws for what cannot be sent, whatever JavaScript passed. */
function specOf(tool: string, input: unknown, options: OpenOptions): CallSpec {
  onlyFields(options, OPTIONS, "options");
  const { key, turn, policy, priority = 0, traceparent = "" } = options;
  checkSignal(options.signal);
  const spec: CallSpec = {
    $typeName: "trunkline.v1.CallSpec",
    tool: wellFormed(tool, "tool"),
    // An empty one would be taken for none: opened again, the call would be another one.
    key: key === undefined ? "" : wellFormed(present(key, "key"), "key"),
    priority: whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY),
    traceparent: wellFormed(traceparent, "traceparent"),
    inputJson: input === undefined ? "null" : toJson(input, "input"),
  };
  if (turn !== undefined) spec.turn = whole(turn, "turn", 0, MAX_WHOLE);
  if (policy !== undefined) spec.policy = policyToWire(policy);
  return spec;
}
