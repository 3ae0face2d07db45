import { LIMITS } from "../core/limits.js";

interface Filling<Frame> {
  readonly frame: Frame;
  bytes: number;
}

/**
 * Gathers items into frames. Whatever is added before the stream takes the next frame goes into it, so a
 * busy line coalesces by itself, and a lone item leaves at once. A frame is closed at 64 KiB, unless one
 * item alone is larger.
 */
export class FrameWriter<Frame> {
  readonly #newFrame: () => Frame;
  readonly #refill: (() => Promise<void>) | null;
  #frames: Filling<Frame>[] = [];
  #pendingBytes = 0;
  #wake: (() => void) | null = null;
  #end: { readonly error: Error | null } | null = null;

  /** `refill`, when given, may add more whenever all frames have been taken. */
  constructor(newFrame: () => Frame, refill: (() => Promise<void>) | null = null) {
    this.#newFrame = newFrame;
    this.#refill = refill;
  }

  /** Bytes that wait to be taken, roughly. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Adds an item of roughly `bytes` to the frame that leaves next; nothing after the end. */
  add(bytes: number, put: (frame: Frame) => void): void {
    if (this.#end !== null) return;
    let last = this.#frames.at(-1);
    if (last === undefined || last.bytes + bytes > LIMITS.frameTargetBytes) {
      last = { frame: this.#newFrame(), bytes: 0 };
      this.#frames.push(last);
    }
    last.bytes += bytes;
    this.#pendingBytes += bytes;
    put(last.frame);
    this.#notify();
  }

  /** Ends the stream after what was added; with an error, it ends with that. The first end counts. */
  end(error: Error | null = null): void {
    this.#end ??= { error };
    this.#notify();
  }

  /** Frames that were not taken yet. */
  pending(): Frame[] {
    return this.#frames.map(({ frame }) => frame);
  }

  /** Ends the stream at once: what was not taken is dropped. */
  abandon(): void {
    this.#frames = [];
    this.#pendingBytes = 0;
    this.end();
  }

  /** The frames, as they are ready. */
  async *frames(): AsyncGenerator<Frame, void, undefined> {
    for (;;) {
      if (this.#frames.length === 0 && this.#end === null) await this.#refill?.();
      const next = this.#frames.shift();
      if (next !== undefined) {
        this.#pendingBytes -= next.bytes;
        yield next.frame;
      } else if (this.#end !== null) {
        if (this.#end.error !== null) throw this.#end.error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
