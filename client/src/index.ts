export { type Agent, type AgentTool } from "./agent.js";
export {
  type Attempt,
  type Call,
  type CallRef,
  type CallState,
  type Executor,
  type Outcome,
} from "./call.js";
export { CALL_STATES } from "./call.js";
export { CallHandle, type OutcomeOptions } from "./call-handle.js";
export { type CallFilter, type Calls } from "./calls.js";
export { Trunkline, type TrunklineOptions } from "./client.js";
export { type KeySource } from "./key-source.js";
export {
  type Decision,
  type DecisionItem,
  type Proposed,
  type SessionAgent,
  type ToolFailure,
  type ToolResult,
} from "./decision-reading.js";
export {
  type SessionStartTrigger,
  type ToolExecuteTrigger,
  type Trigger,
  type TriggerInput,
} from "./decision-trigger.js";
export { Decisions, type Decide, type DecisionsOptions } from "./decisions.js";
export { defineToolset, type DefinedToolset } from "./define-toolset.js";
export { type DeferOptions, type Deferred, type ToolContext } from "./context.js";
export { formatDuration, parseDuration, type Duration } from "./duration.js";
export {
  HostToolError,
  REASONS,
  ToolError,
  TrunklineError,
  type ErrorDetails,
  type Failure,
  type FailureKind,
  type HostToolErrorOptions,
  type Reason,
} from "./errors.js";
export { type CallInfo, type ToolHandler } from "./handler.js";
export { rawJson, type RawJson } from "./json.js";
export {
  type KeyFilter,
  type KeyInfo,
  type KeyOptions,
  type Keys,
  type NewKey,
  type RotateOptions,
} from "./keys.js";
export { Page, type PageOptions } from "./page.js";
export { type Policy, type PolicyMode } from "./policy.js";
export { type Project, type ProjectChoice, type Projects } from "./projects.js";
export { retryPolicy, type RetryPolicy } from "./retry-policy.js";
export { Run, type OpenOptions } from "./run.js";
export { type TransportMode } from "./route.js";
export { type RunInfo, type RunState } from "./run-info.js";
export { type RunFilter, type RunOptions, type Runs } from "./runs.js";
export { type KeyScope, type TokenScope } from "./scopes.js";
export { DEFAULT_URL } from "./server-url.js";
export { type Session, type SessionOptions, type Sessions } from "./sessions.js";
export { type Settlement, type TaskFailure } from "./settlement.js";
export { type StandardSchemaV1 } from "./standard-schema.js";
export { type Task, type Tasks } from "./tasks.js";
export { type NewToken, type TokenOptions, type Tokens } from "./tokens.js";
export {
  jsonSchema,
  type JsonSchema,
  type ToolCallers,
  type ToolDefinition,
  type ToolDefinitions,
  type TypedHandler,
  type TypedHandlers,
} from "./tool-definition.js";
export { type ToolProxy } from "./tools-proxy.js";
export { type ToolDeclaration, type ToolDeclarations, type Toolset, type Toolsets } from "./toolsets.js";
export { type EndpointOptions } from "./transport.js";
export { Turn, TurnTimeoutError, type OpenCall, type SettledOptions, type TurnStatus } from "./turn.js";
export { BatchError, type BatchCall, type RefusedCall } from "./turn-batch.js";
export { VERSION } from "./version.js";
export { type RunEvent, type WatchOptions } from "./watch.js";
export { Worker, type OnError, type StopOptions, type WorkerOptions } from "./worker.js";
export { type WorkerStatus } from "./worker-status.js";
