import { create } from "@bufbuild/protobuf";
import { GoawaySchema, type Goaway } from "@trunkline/proto/worker";
import { toDuration } from "./convert.js";

/** How long a client may take to open its next stream before its old one is cut. */
export const LEAVE_MS = 10_000;

/** Streams grow old at up to a quarter less than the limit, so that those of one moment do not leave together. */
const JITTER = 0.25;

/** So many ages there are: Node keeps something of each length of a timer until that has passed. */
const AGES = 256;

/** The longest `setTimeout`; a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What tells a client to open its next stream elsewhere. */
export function goawayMessage(message: string, deadlineMs: number): Goaway {
  return create(GoawaySchema, { message, deadline: toDuration(Math.max(1, Math.round(deadlineMs))) });
}

/** The age of one stream: `onOld` is called once, some time before the limit has passed. */
export class StreamAge {
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(limitMs: number, onOld: () => void) {
    const part = Math.floor(Math.random() * AGES) / AGES;
    this.after(limitMs * (1 - JITTER * part), onOld);
  }

  /** Calls `then` after so many milliseconds, unless the stream has ended by then. */
  after(ms: number, then: () => void): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        then();
      },
      Math.min(ms, LONGEST_TIMER_MS),
    );
    this.#timers.add(timer.unref());
  }

  /** The stream has ended. */
  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}
