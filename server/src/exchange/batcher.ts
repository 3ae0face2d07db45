import { TrunklineError } from "../core/error.js";
import { safeMessage } from "../core/logged-error.js";
import { classifyError } from "../store/database.js";
import { Lanes } from "./lanes.js";
import { overloaded } from "./overload.js";

/**
 * While more items wait than `above`, one batch of at most `maxItems` is written at a time: what others write beside
 * it, which finishes what these begin, comes first.
 */
export interface Crowd<Item> {
  readonly above: number;
  readonly maxItems: number;
  /** Whether an item, and what is behind it in its lane, had better wait a little longer. Default: none. */
  readonly isEarly?: (item: Item) => boolean;
}

/** How a {@link Batcher} writes. */
export interface BatcherOptions<Item, Result> {
  /** Writes a batch in one go: the results in the items' order. `again`: it may have been written already. */
  readonly write: (items: readonly Item[], again: boolean) => Promise<readonly Result[]>;
  /** The bytes that an item adds to a batch, roughly. */
  readonly sizeOf: (item: Item) => number;
  /**
   * Whose item it is. When more waits than goes into a batch, each gets one in after the other, so that nobody waits
   * for all that another has pushed; the order of what is one's own stays. Default: all are one's.
   */
  readonly laneOf?: (item: Item) => string;
  /** At most so many items in a batch. Default 200: larger ones leave everybody else idle while they are written. */
  readonly maxItems?: number;
  /** At most so many bytes in a batch, unless one item is larger. Default 4 MiB. */
  readonly maxBytes?: number;
  /** Batches being written at once. Default 3: while they are written, the next gathers. */
  readonly maxInFlight?: number;
  /** What is otherwise while very many wait. Default: nothing. */
  readonly crowd?: Crowd<Item>;
  /** How long a batch whose outcome is unknown is sent again before it is given up. Default 10 s. */
  readonly resendMs?: number;
  /** Items that may wait for a batch; more are refused as OVERLOADED. Default: no bound. */
  readonly maxWaiting?: number;
  /** Their bytes, unless one item is larger. Default: no bound. */
  readonly maxWaitingBytes?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly bytes: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

const DEFAULT_MAX_ITEMS = 200;
const DEFAULT_MAX_BYTES = 4 * 1024 * 1024;
/** A larger item goes alone: it is written faster by itself, and others do not wait for it. */
const ALONE_BYTES = 256 * 1024;
const DEFAULT_IN_FLIGHT = 3;
const DEFAULT_RESEND_MS = 10_000;
const RETRIES = 10;
/** When a crowd is looked at again that had better wait. */
const EARLY_MS = 3;

/**
 * Group commit: what is pushed while a batch is written becomes the next batch. No timer delays a lone
 * item. One bad item never harms the rest of its batch (I11): an error that an item's data caused splits
 * the batch until the bad item is alone. A batch whose outcome is unknown, because its connection was
 * lost, is sent again unchanged; `write` must be safe to repeat.
 */
export class Batcher<Item, Result> {
  readonly #options: Required<BatcherOptions<Item, Result>>;
  /** What was pushed since all went into a batch; what did not is in the lanes, and so is then all that comes. */
  #pushed: Waiting<Item, Result>[] = [];
  readonly #lanes = new Lanes<Waiting<Item, Result>>();
  #waiting = 0;
  #waitingBytes = 0;
  /** As {@link #waitingBytes}, but an item that goes alone counts as a whole batch. */
  #waitingFill = 0;
  #inFlight = 0;
  #scheduled = false;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = {
      laneOf: () => "",
      maxItems: DEFAULT_MAX_ITEMS,
      maxBytes: DEFAULT_MAX_BYTES,
      maxInFlight: DEFAULT_IN_FLIGHT,
      crowd: { above: Infinity, maxItems: DEFAULT_MAX_ITEMS },
      resendMs: DEFAULT_RESEND_MS,
      maxWaiting: Infinity,
      maxWaitingBytes: Infinity,
      ...options,
    };
  }

  /** Items that wait for a batch. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Adds an item to the next batch; resolves after its commit.
   *
   * @throws TrunklineError UNAVAILABLE when the outcome stays unknown; OVERLOADED when too much waits; what the
   *   item's data caused.
   */
  push(item: Item): Promise<Result> {
    const bytes = this.#options.sizeOf(item);
    if (this.#isFull(bytes)) return Promise.reject(overloaded());
    return new Promise((resolve, reject) => {
      this.#add({ item, bytes, resolve, reject });
      if (this.#scheduled || this.#inFlight >= this.#mostInFlight()) return;
      // Everything that is pushed in this turn of the event loop goes together.
      this.#scheduled = true;
      setImmediate(() => this.#scheduledFlush());
    });
  }

  #scheduledFlush(): void {
    this.#scheduled = false;
    this.#flush();
  }

  #isFull(bytes: number): boolean {
    const { maxWaiting, maxWaitingBytes } = this.#options;
    const waiting = this.#waiting;
    return waiting >= maxWaiting || (waiting > 0 && this.#waitingBytes + bytes > maxWaitingBytes);
  }

  #add(one: Waiting<Item, Result>): void {
    this.#waiting++;
    this.#waitingBytes += one.bytes;
    this.#waitingFill += this.#fillOf(one);
    if (this.#lanes.isEmpty) this.#pushed.push(one);
    else this.#lanes.add(this.#options.laneOf(one.item), one);
  }

  #fillOf({ bytes }: Waiting<Item, Result>): number {
    return bytes > ALONE_BYTES ? this.#options.maxBytes : bytes;
  }

  #flush(): void {
    while (this.#waiting > 0 && this.#inFlight < this.#mostInFlight()) {
      const batch = this.#take();
      if (batch.length === 0) {
        if (!this.#scheduled) setTimeout(() => this.#scheduledFlush(), EARLY_MS);
        this.#scheduled = true;
        return;
      }
      this.#inFlight++;
      void this.#write(batch).finally(() => {
        this.#inFlight--;
        this.#flush();
      });
    }
  }

  get #isCrowded(): boolean {
    return this.#waiting > this.#options.crowd.above;
  }

  #mostInFlight(): number {
    return this.#isCrowded ? 1 : this.#options.maxInFlight;
  }

  #take(): Waiting<Item, Result>[] {
    const { maxBytes, laneOf } = this.#options;
    const isCrowded = this.#isCrowded;
    const { crowd } = this.#options;
    const { maxItems } = isCrowded ? crowd : this.#options;
    const pushed = this.#pushed;
    this.#pushed = [];
    const isAll = this.#lanes.isEmpty && this.#waiting <= maxItems && this.#waitingFill <= maxBytes;
    if (isAll && !isCrowded) {
      this.#waiting = this.#waitingBytes = this.#waitingFill = 0;
      return pushed;
    }
    for (const one of pushed) this.#lanes.add(laneOf(one.item), one);
    let count = 0;
    let filled = 0;
    return this.#lanes.take((one) => {
      const fills = this.#fillOf(one);
      if (count === maxItems || (count > 0 && filled + fills > maxBytes)) return "full";
      if (isCrowded && crowd.isEarly?.(one.item) === true) return "passed";
      count++;
      filled += fills;
      this.#waiting--;
      this.#waitingBytes -= one.bytes;
      this.#waitingFill -= fills;
      return "taken";
    });
  }

  /** Writes a batch and settles each of its items; never throws. */
  async #write(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    let results: readonly Result[];
    try {
      results = await this.#writeSafely(batch.map(({ item }) => item));
    } catch (error) {
      if (batch.length > 1 && classifyError(error) === "item") {
        const half = Math.ceil(batch.length / 2);
        await this.#write(batch.slice(0, half));
        await this.#write(batch.slice(half));
        return;
      }
      const refusal = asRefusal(error);
      for (const { reject } of batch) reject(refusal);
      return;
    }
    batch.forEach(({ resolve, reject }, index) => {
      const result = results[index];
      if (result === undefined) reject(new TrunklineError("INTERNAL", "a batch came back without this item"));
      else resolve(result);
    });
  }

  /** Writes, again while that can help. */
  async #writeSafely(items: readonly Item[]): Promise<readonly Result[]> {
    const giveUpAt = performance.now() + this.#options.resendMs;
    let again = false;
    for (let tries = 1; ; tries++) {
      try {
        return await this.#options.write(items, again);
      } catch (error) {
        const kind = classifyError(error);
        again ||= kind === "lost";
        const canHelp = kind === "retry" ? tries < RETRIES : kind === "lost" && performance.now() < giveUpAt;
        if (!canHelp) throw error;
        await pause(kind === "retry" ? Math.random() * 10 * tries : Math.min(1_000, 50 * 2 ** tries));
      }
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** What the caller is told of a batch that could not be written. */
function asRefusal(error: unknown): unknown {
  const kind = classifyError(error);
  if (error instanceof TrunklineError && kind === "fatal") return error;
  switch (kind) {
    case "lost":
    case "retry":
      return new TrunklineError("UNAVAILABLE", "the database cannot be reached; try again", {
        retryAfterMs: 1_000,
        cause: error,
      });
    case "item":
      return new TrunklineError("INVALID_FIELD", `the database refused the item: ${safeMessage(error)}`, {
        cause: error,
      });
    case "fatal":
      return new TrunklineError("INTERNAL", "the database refused the statement", { cause: error });
  }
}
