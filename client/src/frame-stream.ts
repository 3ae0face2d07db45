import { TrunklineError } from "./errors.js";
import { FrameWriter } from "./frame-writer.js";
import { LIMITS } from "./limits.js";
import type { StreamConnection } from "./transport.js";

/** Silent intervals after which a connection is dead. */
const SILENT_INTERVALS = 3;

/** What a stream is made of. */
export interface FrameStreamOptions<Up, Down> {
  readonly connection: StreamConnection;
  /** Starts the RPC. */
  readonly call: (frames: AsyncIterable<Up>) => AsyncIterable<Down>;
  /** Builds the next frame up; undefined when there is nothing to say. */
  readonly next: () => Up | undefined;
  /** What throws ends the stream. */
  readonly onFrame: (frame: Down) => void;
  /** Once in every heartbeat interval, from {@link FrameStream.beat} on. */
  readonly onBeat: (heard: boolean) => void;
  /** Once. The cause is undefined when the server ended the stream in order. */
  readonly onEnd: (cause: unknown) => void;
}

/**
 * One bidirectional stream on a connection of its own: sends frames, reads frames, beats, and drops the
 * connection when nothing was heard for three heartbeat intervals.
 */
export class FrameStream<Up, Down> {
  readonly #options: FrameStreamOptions<Up, Down>;
  readonly #writer: FrameWriter<Up>;
  #timer: NodeJS.Timeout;
  #keepAlive = true;
  #welcomed = false;
  #over = false;
  /** Whether a frame came since the last beat. */
  #heard = false;
  #silent = 0;

  constructor(options: FrameStreamOptions<Up, Down>) {
    this.#options = options;
    this.#writer = new FrameWriter(options.next);
    const { welcomeMs } = options.connection;
    this.#timer = setTimeout(() => {
      this.#suspect(`it gave no welcome in ${welcomeMs} ms`);
    }, welcomeMs);
    void this.#read();
  }

  /** Sends what is ready at the end of this turn. */
  wake(): void {
    this.#writer.wake();
  }

  /** Sends what is ready now. */
  flush(): void {
    this.#writer.flush();
  }

  /** Ends the sending half; the server then ends the stream. */
  end(): void {
    this.#writer.end();
  }

  /** Ends the stream and its connection at once. */
  drop(cause: Error): void {
    this.#finish(cause);
  }

  /** After the welcome: beats at this interval and watches over it. */
  beat(intervalMs: number): void {
    if (this.#over) return;
    this.#welcomed = true;
    this.#options.connection.welcomed();
    const ms = Math.min(Math.max(intervalMs, 1), LIMITS.timerMs);
    clearTimeout(this.#timer);
    this.#timer = setInterval(() => {
      this.#tick(ms);
    }, ms);
    this.#refTimer();
  }

  /** Whether the stream keeps the process alive. */
  keepAlive(on: boolean): void {
    if (this.#keepAlive === on) return;
    this.#keepAlive = on;
    this.#options.connection.keepAlive(on);
    this.#refTimer();
  }

  #refTimer(): void {
    if (this.#keepAlive) this.#timer.ref();
    else this.#timer.unref();
  }

  #tick(intervalMs: number): void {
    const heard = this.#heard;
    this.#heard = false;
    this.#silent = heard ? 0 : this.#silent + 1;
    if (this.#silent >= SILENT_INTERVALS) this.#suspect(`silent for ${this.#silent * intervalMs} ms`);
    this.#options.onBeat(heard);
  }

  /**
   * This process may have stood still itself, so what has arrived meanwhile is read first: the event loop
   * looks at the sockets between a timer and an immediate, and a second turn lets TLS decrypt.
   */
  #suspect(why: string): void {
    setImmediate(() => {
      setImmediate(() => {
        if (this.#over || this.#heard) return;
        this.#finish(new TrunklineError("UNAVAILABLE", `the connection is dead: ${why}`));
      });
    });
  }

  async #read(): Promise<void> {
    let cause: unknown;
    try {
      for await (const frame of this.#options.call(this.#writer)) {
        if (this.#over) return;
        this.#heard = true;
        this.#silent = 0;
        this.#options.onFrame(frame);
      }
    } catch (error) {
      cause = error;
    }
    this.#finish(cause);
  }

  #finish(cause: unknown): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#options.connection.abort();
    if (!this.#welcomed) this.#options.connection.refused(cause);
    this.#options.onEnd(cause);
  }
}
