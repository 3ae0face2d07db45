import { pino, type DestinationStream, type Logger } from "pino";
import { loggedError } from "./core/logged-error.js";

/** What the server logs with. */
export type Log = Logger;

/** How much is logged. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/**
 * A logger of JSON lines. Keys, tokens and payloads are never given to it, and what an error has of them is left out.
 *
 * @param to takes the lines, one at a time. Default: standard error, since standard output belongs to the
 *   command's own answer
 */
export function createLog(level: LogLevel, to: DestinationStream = pino.destination(2)): Log {
  const err = (error: unknown): unknown => (error instanceof Error ? loggedError(error) : error);
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err } }, to);
}

/** A line of the same error comes at most this often. */
const REPEAT_MS = 1_000;
/** Lines of all errors together in that time. */
const MOST_LINES = 2;
const KEPT_MESSAGES = 100;

/**
 * Logs errors of the machinery without flooding: of one message one line a second at most, and two of all, with
 * the number of those left out.
 */
export function errorLogger(log: Log): (error: unknown) => void {
  const last = new Map<string, { at: number; left: number }>();
  let lines: number[] = [];
  return (error) => {
    const err = loggedError(error);
    const { message } = err;
    const now = performance.now();
    const seen = last.get(message);
    lines = lines.filter((at) => now - at < REPEAT_MS);
    if (lines.length >= MOST_LINES || (seen !== undefined && now - seen.at < REPEAT_MS)) {
      if (seen !== undefined) seen.left++;
      else if (last.size <= KEPT_MESSAGES) last.set(message, { at: -Infinity, left: 1 });
      return;
    }
    lines.push(now);
    if (last.size > KEPT_MESSAGES) last.clear();
    last.set(message, { at: now, left: 0 });
    log.error({ err, ...(seen === undefined || seen.left === 0 ? {} : { leftOut: seen.left }) }, message);
  };
}
