import { createHash } from "node:crypto";
import { isEnded } from "../core/call.js";
import type { CallRecord } from "../store/rows.js";

/** Calls whose versions lie together; a run's numbers have few gaps. */
const PAGE = 128;
const HASH_BYTES = 6;

/**
 * In which states the calls of one run were sent, so that none is sent twice: four bytes for each call, and a few
 * more for each open one with progress.
 */
export class SentCalls {
  readonly #versions = new Map<number, Uint32Array>();
  /** What stands for the progress that was sent, which counts no version. */
  readonly #progress = new Map<number, number>();

  /** The version that was sent last; 0: none was. */
  versionOf(seq: number): number {
    return this.#versions.get(Math.floor(seq / PAGE))?.[seq % PAGE] ?? 0;
  }

  /** Notes that a call is sent as it stands; false where it was so before. */
  note({ call, progressJson }: CallRecord): boolean {
    const { seq, version } = call;
    const progress = progressJson === null || isEnded(call) ? undefined : hashOf(progressJson);
    if (this.versionOf(seq) === version && this.#progress.get(seq) === progress) return false;
    this.#pageOf(seq)[seq % PAGE] = version;
    if (progress === undefined) this.#progress.delete(seq);
    else this.#progress.set(seq, progress);
    return true;
  }

  #pageOf(seq: number): Uint32Array {
    const number = Math.floor(seq / PAGE);
    let page = this.#versions.get(number);
    if (page === undefined) this.#versions.set(number, (page = new Uint32Array(PAGE)));
    return page;
  }
}

function hashOf(text: string): number {
  return createHash("sha256").update(text).digest().readUIntBE(0, HASH_BYTES);
}
