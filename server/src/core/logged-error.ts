import { TrunklineError } from "./error.js";

/** What a log says of an error. */
export interface LoggedError {
  readonly type: string;
  readonly message: string;
  /** With the type and the message, as errors have it. */
  readonly stack: string;
  readonly cause?: LoggedError;
  /** What several attempts failed with. */
  readonly errors?: readonly LoggedError[];
  /** A code, and the names of what PostgreSQL's tables and the operating system know the fault by. */
  readonly [fact: string]: unknown;
}

/**
 * Facts that name parts of the program, of the database's schema or of the network. Everything else that an error
 * carries stays out of the log: PostgreSQL's `detail` and `where` quote the row, Node's `input` the whole URL.
 */
const FACTS = [
  ...["code", "reason", "metadata"],
  ...["severity", "schema", "table", "column", "constraint", "routine"],
  ...["syscall", "address", "port"],
];

const NO_ERROR = "what was thrown is no error";
const FRAME = /^ {4}at .*(:\d+:\d+\)?|\(<anonymous>\)|\(native\))$/;
const MOST_CAUSES = 5;
const MOST_ERRORS = 10;

/** An error as a log may have it: without payloads, keys and tokens, whoever put them into it. */
export function loggedError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error)) {
    // It may be anything.
    return { type: typeof error, message: NO_ERROR, stack: "" };
  }
  const type = error.constructor.name;
  const message = safeMessage(error);
  const facts = Object.entries(error).filter(([name, value]) => FACTS.includes(name) && value !== undefined);
  const { cause } = error;
  const isLast = depth >= MOST_CAUSES;
  return {
    ...Object.fromEntries(facts),
    type,
    message,
    stack: [`${type}: ${message}`, ...framesOf(error)].join("\n"),
    ...(cause !== undefined && !isLast && { cause: loggedError(cause, depth + 1) }),
    ...(error instanceof AggregateError &&
      !isLast && { errors: error.errors.slice(0, MOST_ERRORS).map((each) => loggedError(each, depth + 1)) }),
  };
}

/** As {@link loggedError}, as text for a person. */
export function loggedText(error: unknown): string {
  const lines: string[] = [];
  for (let at: LoggedError | undefined = loggedError(error); at !== undefined; at = at.cause) {
    lines.push(at.stack === "" ? at.message : at.stack);
  }
  return lines.join("\ncaused by: ");
}

/**
 * What an error says, without what it quotes where that may be a value. Our own errors name no secrets; of PostgreSQL's
 * those of class 22 quote values, and the others names.
 */
export function safeMessage(error: unknown): string {
  if (!(error instanceof Error)) return NO_ERROR;
  if (error instanceof TrunklineError) return error.message;
  const isDatabases = "severity" in error && "code" in error && typeof error.code === "string";
  if (isDatabases && !String(error.code).startsWith("22")) return error.message;
  return error.message.replace(/".*"/s, '"…"');
}

/** A stack begins with the message as it was at first, which may have many lines. */
function framesOf({ stack = "", message }: Error): string[] {
  const head = message === "" ? -1 : stack.indexOf(message);
  const rest = head < 0 ? stack : stack.slice(head + message.length);
  return rest.split("\n").filter((line) => FRAME.test(line));
}
