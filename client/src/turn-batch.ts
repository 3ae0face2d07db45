import { refuseArgument } from "./argument.js";
import type { CallHandle } from "./call-handle.js";
import { TrunklineError } from "./errors.js";
import type { OpenOptions } from "./run.js";
import { typeOf } from "./text.js";

/** One call of a batch. */
export interface BatchCall extends Omit<OpenOptions, "turn"> {
  readonly tool: string;
  readonly input?: unknown;
}

/** A call of a batch that was not opened. */
export interface RefusedCall {
  /** Its place in the batch, from 0. */
  readonly index: number;
  readonly tool: string;
  /** The key that was given; undefined when none was. */
  readonly key: string | undefined;
  readonly error: TrunklineError;
}

/** How many refused calls a message names. */
const NAMED_CALLS = 10;

/**
 * Thrown by `turn.openAll` when calls of the batch were refused. The others are open. `reason` is that of the first
 * refused one.
 */
export class BatchError extends TrunklineError {
  override readonly name = "BatchError";
  /** Those that were not opened, in the order of the batch; at least one. */
  readonly refused: readonly RefusedCall[];
  /** The others at their places in the batch, undefined where one was refused. */
  readonly opened: readonly (CallHandle | undefined)[];

  constructor(
    refused: readonly [RefusedCall, ...RefusedCall[]],
    opened: readonly (CallHandle | undefined)[],
  ) {
    const named = refused
      .slice(0, NAMED_CALLS)
      .map(({ index, error }) => `calls[${index}]: ${error.message}`)
      .join("; ");
    const more = refused.length > NAMED_CALLS ? `; and ${refused.length - NAMED_CALLS} others` : "";
    super(refused[0].error.reason, `${refused.length} of ${opened.length} calls refused: ${named}${more}`);
    this.refused = refused;
    this.opened = opened;
  }
}

/**
 * Opens calls one right after the other, so that they go out together, and are numbered in their order
 * unless another server numbers calls of the run at the same time.
 *
 * @throws BatchError when some were refused, once all have been answered; the signal's reason where one was aborted;
 *   TrunklineError INVALID_FIELD for what are no calls, before any is opened
 */
export async function openBatch(
  calls: readonly BatchCall[],
  open: (call: BatchCall) => Promise<CallHandle>,
): Promise<CallHandle[]> {
  checkCalls(calls);
  const ends = await Promise.allSettled(calls.map(open));
  const opened = ends.map((end) => (end.status === "fulfilled" ? end.value : undefined));
  const refused = calls.flatMap(({ tool, key }, index): RefusedCall[] => {
    const end = ends[index];
    if (end?.status !== "rejected") return [];
    const error: unknown = end.reason;
    if (!(error instanceof TrunklineError)) throw error;
    return [{ index, tool, key, error }];
  });
  const [first, ...others] = refused;
  if (first !== undefined) throw new BatchError([first, ...others], opened);
  return opened.filter((handle) => handle !== undefined);
}

/** What comes from JavaScript may be anything. What is in a call is looked at as it is opened. */
function checkCalls(calls: unknown): void {
  if (!Array.isArray(calls))
    throw refuseArgument("calls", typeOf(calls), "allowed is an array of { tool, … }");
  calls.forEach((call: unknown, index) => {
    if (typeof call === "object" && call !== null) return;
    throw refuseArgument(`calls[${index}]`, `${typeOf(call)} is not an object`, "allowed is { tool, … }");
  });
}
