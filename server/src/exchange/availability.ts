import { TrunklineError } from "../core/error.js";

/** A node that could not be renewed for so many heartbeat intervals has no database. */
const DOWN_INTERVALS = 2;
const RETRY_MS = 1_000;

/**
 * Whether this node has its database, as its renewals tell: what makes the node count as alive for others. While
 * it has none it asks its clients to go elsewhere and takes nothing on.
 */
export class Availability {
  readonly #intervalMs: number;
  readonly #listeners = new Set<(isDown: boolean, cause?: unknown) => void>();
  /** Requests that are under way, which nobody else would end. */
  readonly #guarded = new Set<(error: TrunklineError) => void>();
  #renewedAt = performance.now();
  #steadySince = performance.now();
  #isDown = false;

  constructor(heartbeatIntervalMs: number) {
    this.#intervalMs = heartbeatIntervalMs;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** How long the database has been there without a break, in milliseconds; 0 while it is missed. */
  get steadyMs(): number {
    return Math.max(0, performance.now() - this.#steadySince);
  }

  /** Calls `listener` whenever the database goes, with why, or comes back; call the result to leave. */
  onChange(listener: (isDown: boolean, cause?: unknown) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The node was renewed. Whether that comes after a break. */
  renewed(): boolean {
    const now = performance.now();
    const wasAway =
      this.#steadySince === Infinity || now - this.#renewedAt > DOWN_INTERVALS * this.#intervalMs;
    if (wasAway) this.#steadySince = now;
    this.#renewedAt = now;
    this.#set(false);
    return wasAway;
  }

  /** The node could not be renewed. */
  failed(cause?: unknown): void {
    this.#steadySince = Infinity;
    if (performance.now() - this.#renewedAt >= DOWN_INTERVALS * this.#intervalMs) this.#set(true, cause);
  }

  /**
   * Refuses work while the database is missed.
   *
   * @throws TrunklineError UNAVAILABLE
   */
  check(): void {
    if (this.#isDown) throw noDatabase();
  }

  /** What `work` comes to, or UNAVAILABLE as soon as the database is gone: its outcome is not known then. */
  guard<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#guarded.add(reject);
      work.then(resolve, reject).finally(() => this.#guarded.delete(reject));
    });
  }

  #set(isDown: boolean, cause?: unknown): void {
    if (this.#isDown === isDown) return;
    this.#isDown = isDown;
    if (isDown) for (const reject of this.#guarded) reject(noDatabase());
    for (const listener of this.#listeners) listener(isDown, cause);
  }
}

/** What callers are told of a node that has lost its database. */
export function noDatabase(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "this node cannot reach its database; try again, or elsewhere", {
    retryAfterMs: RETRY_MS,
  });
}
