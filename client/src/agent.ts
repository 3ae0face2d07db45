import { createHash } from "node:crypto";
import { flag, onlyFields, refuseArgument } from "./argument.js";
import { toJson } from "./json.js";
import { ordered } from "./ordered-json.js";
import type { Policy } from "./policy.js";
import { retryPolicy, type RetryPolicy } from "./retry-policy.js";
import { present, typeOf, wellFormed } from "./text.js";
import { toolToWire, type ToolDeclaration, type ToolDeclarations } from "./toolsets.js";

/** The name of the tool whose call asks a worker for the {@link Agent} of a session. */
export const SESSION_START = "session.start" as const;

/** A tool of an {@link Agent}. */
export interface AgentTool {
  /** 1 to 128 of `[A-Za-z0-9_.-]`, not `session.start`; each once. */
  readonly name: string;
  /** For the model. At most 16 KiB. */
  readonly description: string;
  /** JSON Schema of the input, as in {@link ToolDeclaration}. */
  readonly input?: unknown;
  /** JSON Schema of the result. Default: anything. */
  readonly output?: unknown;
  /** How it is retried and how long it may take. Default: as in {@link Policy}. */
  readonly retry?: RetryPolicy;
  /** The same, and all else that a policy says; not beside `retry`. */
  readonly policy?: Policy;
  /** Whether the harness's side answers it (a browser, a person), and no worker. Default false. */
  readonly client?: boolean;
}

/** What a session works with: the model that decides, and the tools that it may call. */
export interface Agent {
  readonly model: string;
  /** At least one. */
  readonly tools: readonly AgentTool[];
  /** What else the harness is to know, such as instructions. */
  readonly settings?: unknown;
}

const AGENT_FIELDS: Record<keyof Agent, true> = { model: true, tools: true, settings: true };

const TOOL_FIELDS: Record<keyof AgentTool, true> = {
  name: true,
  description: true,
  input: true,
  output: true,
  retry: true,
  policy: true,
  client: true,
};

const NAME = /^[A-Za-z0-9_.-]{1,128}$/;

/**
 * What was given as an agent, checked but for what only a server can say of its schemas.
 *
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON or LIMIT_EXCEEDED, with the place in the agent
 */
export function readAgent(given: unknown): Agent {
  // What comes from JavaScript, or over the wire, may be anything; each field is looked at.
  const agent = given as Agent;
  onlyFields(agent, AGENT_FIELDS, "agent");
  wellFormed(present(agent.model, "agent.model"), "agent.model");
  declarationsOf(agent);
  return agent;
}

/**
 * The agent in the answer to `session.start`, which is `{ agent }`.
 *
 * @throws TrunklineError as {@link readAgent} does
 */
export function readStarted(given: unknown): Agent {
  // Each field is looked at.
  const answer = given as { readonly agent: unknown };
  onlyFields(answer, { agent: true }, "the answer to session.start");
  return readAgent(answer.agent);
}

/**
 * The agent's tools as a toolset has them, by name, in the order of their names.
 *
 * @throws TrunklineError as {@link readAgent} does
 */
export function declarationsOf({ tools }: Agent): ToolDeclarations {
  const list: unknown = tools;
  if (!Array.isArray(list) || list.length === 0) {
    const seen = Array.isArray(list) ? "it is empty" : `${typeOf(list)} is not an array`;
    throw refuseArgument("agent.tools", seen, "allowed is one tool or more");
  }
  const declared = new Map<string, ToolDeclaration>();
  for (const [index, tool] of tools.entries()) {
    const field = `agent.tools[${index}]`;
    onlyFields(tool, TOOL_FIELDS, field);
    const name = checkName(tool.name, `${field}.name`);
    if (declared.has(name)) {
      throw refuseArgument(`${field}.name`, JSON.stringify(name), "allowed is a name that no other tool has");
    }
    declared.set(name, declarationOf(tool, field));
  }
  return Object.fromEntries([...declared].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The names of those tools that workers execute. */
export function workerTools({ tools }: Agent): string[] {
  return tools.filter(({ client = false }) => !client).map(({ name }) => name);
}

/** The id of the toolset with these tools: equal tools have the same one. */
export function toolsetIdOf(declarations: ToolDeclarations): string {
  const digest = createHash("sha256")
    .update(JSON.stringify(ordered(declarations)))
    .digest("hex");
  return `agent-${digest.slice(0, 32)}`;
}

function checkName(given: unknown, field: string): string {
  const name = present(given, field);
  if (!NAME.test(name)) {
    throw refuseArgument(field, JSON.stringify(name), "allowed are 1 to 128 of A-Z a-z 0-9 _ . -");
  }
  if (name !== SESSION_START) return name;
  throw refuseArgument(field, JSON.stringify(name), "it is reserved; allowed is any other name");
}

function declarationOf(tool: AgentTool, field: string): ToolDeclaration {
  const { description, input, output, retry, client = false } = tool;
  if (retry !== undefined && tool.policy !== undefined) {
    throw refuseArgument(field, "it has retry and policy", "allowed is one of them");
  }
  const policy = retry === undefined ? tool.policy : retryPolicy(retry, `${field}.retry`);
  const declaration: ToolDeclaration = {
    description,
    ...(input !== undefined && { input: orderedJson(input, `${field}.input`) }),
    ...(output !== undefined && { output: orderedJson(output, `${field}.output`) }),
    ...(policy !== undefined && { policy }),
    executor: flag(client, `${field}.client`) ? "client" : "worker",
  };
  toolToWire(tool.name, declaration, field);
  return declaration;
}

function orderedJson(value: unknown, field: string): unknown {
  return ordered(JSON.parse(toJson(value, field)));
}
