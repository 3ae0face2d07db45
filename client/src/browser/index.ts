export {
  connectTrunkline,
  type BrowserClient,
  type BrowserOptions,
  type OpenCallsOptions,
} from "./browser-client.js";
export type { Attempt, Call, CallState, Executor } from "../call.js";
export { TrunklineError, type ErrorDetails, type Failure, type FailureKind, type Reason } from "../errors.js";
export { rawJson, type RawJson } from "../json.js";
export type { KeySource } from "../key-source.js";
export type { Policy, PolicyMode } from "../policy.js";
export type { RunInfo, RunState } from "../run-info.js";
export type { Settlement } from "../settlement.js";
export type { RunEvent, WatchOptions } from "../watch.js";
