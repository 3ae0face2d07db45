import { TrunklineError } from "../core/error.js";

/**
 * What to do about an error of the database. `retry`: rolled back for the sake of others; the same again
 * may work. `lost`: nobody knows whether it was done, or nobody could be reached; the same again, unchanged
 * and guarded, finds out. `item`: a value is at fault; a batch can be split until it is alone. `fatal`: a
 * fault of ours, or of the database's set-up.
 */
export type ErrorClass = "retry" | "lost" | "item" | "fatal";

/** deadlock_detected, serialization_failure, lock_not_available. */
const RETRY = new Set(["40P01", "40001", "55P03"]);

/**
 * Codes that tell of the connection or of the server's state: admin_shutdown, crash_shutdown,
 * cannot_connect_now, database_dropped, idle_session_timeout, idle_in_transaction_session_timeout,
 * read_only_sql_transaction (a server that has become a replica), and the operating system's.
 */
const LOST = new Set([
  ...["57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25006"],
  ...["ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EAI_AGAIN"],
  ...["EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EADDRNOTAVAIL", "ENOENT"],
]);

/** What the driver says without a code. */
const LOST_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end)/;

/** Sorts an error that a query threw; see {@link ErrorClass}. One of ours is of the class of its cause. */
export function classifyError(error: unknown): ErrorClass {
  if (error instanceof TrunklineError)
    return error.cause === undefined ? "fatal" : classifyError(error.cause);
  const code = codeOf(error);
  if (code !== undefined) {
    if (RETRY.has(code)) return "retry";
    // 08: connection exceptions; 53: out of connections, disk or memory.
    if (LOST.has(code) || /^(08|53)...$/.test(code)) return "lost";
    // 22: data exceptions; 23: integrity constraint violations.
    if (/^2[23]...$/.test(code)) return "item";
  }
  if (error instanceof Error && LOST_MESSAGES.test(error.message)) return "lost";
  return "fatal";
}

/** The SQLSTATE or the operating system's code of an error. */
function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  if ("code" in error && typeof error.code === "string") return error.code;
  // Node tries all addresses of a host, and tells of them together.
  return error instanceof AggregateError ? codeOf(error.errors[0]) : undefined;
}
