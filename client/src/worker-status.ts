import { LIMITS } from "./limits.js";

/**
 * Where a worker stands. `connecting`: it has never been welcomed by a server. `connected`: it takes calls, or
 * its stream was cut a moment ago. `deaf`: it had a stream, and for three heartbeat intervals it has heard
 * nothing; it keeps trying. `draining`: it was told to stop and still has something to finish. `stopped`: it
 * is over, and stays so.
 */
export type WorkerStatus = "connecting" | "connected" | "draining" | "deaf" | "stopped";

/** Intervals of silence after which a worker counts as deaf: as many as make a connection dead. */
const DEAF_INTERVALS = 3;

/** Follows a worker's streams and says where it stands. */
export class StatusWatch {
  readonly #onChange: (status: WorkerStatus) => void;
  #status: WorkerStatus = "connecting";
  #intervalMs = 0;
  #heardAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onChange: (status: WorkerStatus) => void) {
    this.#onChange = onChange;
  }

  get status(): WorkerStatus {
    return this.#status;
  }

  /** The server's heartbeat interval, in milliseconds, from the last welcome; 0 before the first. */
  get intervalMs(): number {
    return this.#intervalMs;
  }

  /** A stream was welcomed. */
  attached(intervalMs: number): void {
    this.#intervalMs = intervalMs;
    this.heard();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#status === "connecting" || this.#status === "deaf") this.#become("connected");
  }

  /** Anything came from the server. */
  heard(): void {
    this.#heardAt = performance.now();
  }

  /** No welcomed stream is left. */
  detached(): void {
    if (this.#status !== "connected" || this.#timer !== undefined) return;
    const deafAt = this.#heardAt + DEAF_INTERVALS * this.#intervalMs;
    this.#timer = setTimeout(
      () => {
        if (this.#status === "connected") this.#become("deaf");
      },
      Math.min(Math.max(0, deafAt - performance.now()), LIMITS.timerMs),
    );
    this.#timer.unref();
  }

  drain(): void {
    if (this.#status !== "stopped") this.#become("draining");
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#become("stopped");
  }

  #become(status: WorkerStatus): void {
    if (this.#status === status) return;
    this.#status = status;
    this.#onChange(status);
  }
}
