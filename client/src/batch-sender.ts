import { LIMITS } from "./limits.js";

/** Requests with batches that are under way at once; while they are, the next batches gather. */
const UNDER_WAY = 4;
/** Items of one request. */
const BATCH_ITEMS = 1_000;

/** How a {@link BatchSender} works. */
export interface BatchSenderOptions<T> {
  /** Whether two items may go in one request. */
  readonly goTogether: (first: T, other: T) => boolean;
  /** Whether an item is still to be sent. Default: always. */
  readonly isWanted?: (item: T) => boolean;
  /** Sends a batch, of at least one item; never rejects. */
  readonly send: (batch: readonly T[]) => Promise<void>;
}

/** Sends items by single requests, as many in one as came while others were under way, up to a frame's size. */
export class BatchSender<T extends { readonly bytes: number }> {
  readonly #options: BatchSenderOptions<T>;
  #queue: T[] = [];
  #underWay = 0;
  #due = false;
  #over = false;

  constructor(options: BatchSenderOptions<T>) {
    this.#options = options;
  }

  /** Sends an item with what else is given in this turn of the event loop. */
  add(item: T): void {
    this.#queue.push(item);
    if (this.#due) return;
    this.#due = true;
    setImmediate(() => {
      this.#due = false;
      this.#sendReady();
    });
  }

  /** Sends nothing any more. */
  end(): void {
    this.#over = true;
    this.#queue = [];
  }

  #sendReady(): void {
    while (this.#underWay < UNDER_WAY && !this.#over) {
      const batch = this.#takeBatch();
      if (batch.length === 0) return;
      this.#underWay++;
      void this.#options.send(batch).then(() => {
        this.#underWay--;
        this.#sendReady();
      });
    }
  }

  /** The oldest item, and those that go with it. */
  #takeBatch(): T[] {
    const { isWanted, goTogether } = this.#options;
    const batch: T[] = [];
    const rest: T[] = [];
    let bytes = 0;
    for (const item of this.#queue) {
      if (isWanted?.(item) === false) continue;
      const [first] = batch;
      const fits = bytes + item.bytes <= LIMITS.frameTargetBytes && batch.length < BATCH_ITEMS;
      const goes = first === undefined || (fits && goTogether(first, item));
      (goes ? batch : rest).push(item);
      if (goes) bytes += item.bytes;
    }
    this.#queue = rest;
    return batch;
  }
}
