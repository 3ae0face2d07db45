import type { ProblemJson } from "@trunkline/proto/problem";
import { REASONS, TrunklineError, type Reason } from "../errors.js";
import { readDuration } from "./call-json.js";

/** An error as Connect writes it; every field may be missing, whoever wrote it. */
export interface ConnectErrorJson {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly details?: unknown;
}

/** By the number of their gRPC status. */
const CODES = [
  "OK",
  "CANCELED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** The reason of an error that carries no `Problem`: one of a proxy, or of another server. */
const REASON_OF_CODE: ReadonlyMap<string, Reason> = new Map([
  ["UNAUTHENTICATED", "UNAUTHENTICATED"],
  ["PERMISSION_DENIED", "PERMISSION_DENIED"],
  ["UNIMPLEMENTED", "UNIMPLEMENTED"],
  ["NOT_FOUND", "NOT_FOUND"],
  ["INVALID_ARGUMENT", "INVALID_FIELD"],
  ["RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED"],
  ["ALREADY_EXISTS", "INTERNAL"],
  ["FAILED_PRECONDITION", "INTERNAL"],
  ["OUT_OF_RANGE", "INTERNAL"],
]);

/** What an answer that is no Connect error says by its status. */
const CODE_OF_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "UNIMPLEMENTED"],
]);

const PROBLEM = "trunkline.v1.Problem";

/** The error that a problem of the server is. */
export function errorFromProblemJson(problem: ProblemJson): TrunklineError {
  const { code = 0, reason = "", message = "", metadata, retryAfter } = problem;
  const name = reason.replace("REASON_", "");
  return new TrunklineError(REASONS.find((each) => each === name) ?? "INTERNAL", message, {
    code: CODES[code],
    metadata: { ...metadata },
    retryAfterMs: retryAfter === undefined ? undefined : readDuration(retryAfter),
  });
}

/** The error that an error of Connect is. */
export function errorFromConnectJson(error: ConnectErrorJson, url: string): TrunklineError {
  const problem = problemOf(error.details);
  if (problem !== undefined) return errorFromProblemJson(problem);
  const code = typeof error.code === "string" ? error.code.toUpperCase() : "UNKNOWN";
  const said = typeof error.message === "string" ? error.message : code;
  return errorFromCode(code, `${url} says: ${said}`);
}

/** The error of an answer in which nothing can be read but its status. */
export function errorFromStatus(status: number, url: string): TrunklineError {
  const code = CODE_OF_STATUS.get(status) ?? "UNAVAILABLE";
  return errorFromCode(code, `${url} answers HTTP ${status}; is it the address of a Trunkline server?`);
}

/** What may be a cut, or a node that goes away, is UNAVAILABLE. */
function errorFromCode(code: string, message: string): TrunklineError {
  return new TrunklineError(REASON_OF_CODE.get(code) ?? "UNAVAILABLE", message, { code });
}

/** Its readable form, which Connect leaves to the server: ours writes it. */
function problemOf(details: unknown): ProblemJson | undefined {
  if (!Array.isArray(details)) return undefined;
  for (const detail of details as readonly unknown[]) {
    if (typeof detail !== "object" || detail === null) continue;
    if (!("type" in detail) || detail.type !== PROBLEM || !("debug" in detail)) continue;
    const { debug } = detail;
    if (typeof debug === "object" && debug !== null) return debug;
  }
  return undefined;
}
