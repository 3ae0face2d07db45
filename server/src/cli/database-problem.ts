import { TrunklineError } from "../core/error.js";
import { classifyError } from "../store/database-error.js";
import { withoutPassword } from "../store/servers.js";

/** What to say about an error of the database, by SQLSTATE or the operating system's code. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused: is PostgreSQL running there?",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the host's name could not be looked up",
  ECONNRESET: "the connection was reset: is it PostgreSQL that listens there?",
  EPIPE: "the connection was closed: is it PostgreSQL that listens there?",
  ETIMEDOUT: "there was no answer",
  ENOENT: "there is no such socket: is PostgreSQL running?",
  "08P01": "it does not take what a node sets as it connects: behind a pooler in session mode, give --pooler",
  "28P01": "the password was refused",
  "28000": "the user was refused",
  "3D000": "there is no such database: create it first",
  "42501": "the user may not create tables there: grant it CREATE on the database and its schema",
  "25006": "it takes no writes: is it a standby?",
  "53300": "it has no connections left",
};

/**
 * An error of starting on a database as a {@link TrunklineError} that says what to do; errors that are
 * such already, or have nothing to do with the database, are returned as they are.
 *
 * @param databaseUrl shown without its password
 */
export function explainDatabaseError(error: unknown, databaseUrl: string): unknown {
  if (error instanceof TrunklineError) return error;
  const said = problemOf(error);
  if (said === undefined) return error;
  return new TrunklineError(
    "UNAVAILABLE",
    `cannot use the database ${withoutPassword(databaseUrl)}: ${said}; it is named by DATABASE_URL or --database-url`,
    { cause: error },
  );
}

function problemOf(error: unknown): string | undefined {
  const code = codeOf(error);
  if (code !== undefined) {
    return PROBLEMS[code] ?? (isDatabaseError(error) ? `${error.message} (${code})` : undefined);
  }
  // The driver's own words have no code.
  return error instanceof Error && classifyError(error) === "lost" ? error.message : undefined;
}

function codeOf(error: unknown): string | undefined {
  // Node tries all addresses of a host, and tells of them together.
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** Errors that PostgreSQL itself has sent carry a severity. */
function isDatabaseError(error: unknown): error is Error {
  return error instanceof Error && "severity" in error;
}
