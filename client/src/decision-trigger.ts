import { SESSION_START } from "./agent.js";
import type { ToolContext } from "./context.js";

/** An input: parsed, and as its JSON text, digit for digit. */
export interface TriggerInput {
  readonly value: unknown;
  readonly json: string;
}

/** What every trigger says. */
interface TriggerBase {
  /** The end user that the run acts for. */
  readonly namespace: string;
  /** The run's labels. */
  readonly labels: Readonly<Record<string, string>>;
  /** From 1. */
  readonly attempt: number;
  readonly input: TriggerInput;
  /** Aborts when what is decided does not count any more, such as after a cancel. */
  readonly signal: AbortSignal;
}

/** Asks for the agent of a session that is about to start. */
export interface SessionStartTrigger extends TriggerBase {
  readonly type: "session.start";
  /**
   * The id of the call that asks. Undefined when the worker itself asks, once, as it starts: no session begins by that,
   * it wants to know which tools to serve. Namespace and labels are empty then, `attempt` is 0 and the input null.
   */
  readonly id: string | undefined;
  /** The run in which it is asked; the session's own run is made with the answer. Undefined as `id` is. */
  readonly runId: string | undefined;
}

/** Asks for the answer to a tool call. */
export interface ToolExecuteTrigger extends TriggerBase {
  readonly type: "tool.execute";
  /** The call's id, `{runId}/{seq}`, the same on every attempt: what it is settled by, and its idempotency key. */
  readonly id: string;
  readonly runId: string;
  /** The tool. */
  readonly name: string;
}

/** What is to be decided. */
export type Trigger = SessionStartTrigger | ToolExecuteTrigger;

/** What a worker asks for as it starts. */
export function startTrigger(signal: AbortSignal): SessionStartTrigger {
  const input = { value: null, json: "null" };
  return {
    ...{ type: SESSION_START, id: undefined, runId: undefined, namespace: "", labels: {}, attempt: 0 },
    ...{ input, signal },
  };
}

/** What a claim of a call asks for. */
export function callTrigger(value: unknown, context: ToolContext): Trigger {
  const { tool: name, idempotencyKey: id, runId, namespace, labels, attempt, inputJson: json } = context;
  const said = { id, runId, namespace, labels, attempt, input: { value, json } };
  // Made when somebody asks: most never do.
  const base = {
    ...said,
    get signal() {
      return context.signal;
    },
  };
  if (name === SESSION_START) return Object.assign(base, { type: SESSION_START });
  return Object.assign(base, { type: "tool.execute" as const, name });
}
