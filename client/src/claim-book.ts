import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HeartbeatSchema } from "@trunkline/proto/worker";
import type { HeldClaim } from "./held-claim.js";

/** Progress that one heartbeat carries, in characters; the rest goes with the next. */
const PROGRESS_PER_HEARTBEAT = 128 * 1024;

/** Which claims a worker holds, and which of its handler slots they take. */
export class ClaimBook {
  readonly #concurrency: number;
  readonly #held = new Map<string, HeldClaim>();
  readonly #busy = new Set<HeldClaim>();

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Claims held: from their receipt to the acknowledgement of what became of them. */
  get size(): number {
    return this.#held.size;
  }

  /** Slots taken: claims that will run, and handlers that have not ended, held or not. */
  get busy(): number {
    return this.#busy.size;
  }

  /** Slots that are free now. */
  get free(): number {
    return Math.max(0, this.#concurrency - this.#busy.size);
  }

  get(claimId: string): HeldClaim | undefined {
    return this.#held.get(claimId);
  }

  values(): HeldClaim[] {
    return [...this.#held.values()];
  }

  /** Those whose handlers take a slot, held or not. */
  running(): HeldClaim[] {
    return [...this.#busy];
  }

  add(held: HeldClaim): void {
    this.#held.set(held.id, held);
    this.#busy.add(held);
  }

  /** Forgets a claim; its slot stays taken while its handler runs. */
  remove(claimId: string): void {
    this.#held.delete(claimId);
  }

  /** Frees a claim's slot; whether it had one. */
  freeSlot(held: HeldClaim): boolean {
    return this.#busy.delete(held);
  }

  /** As a hello names them. */
  named(): { claimId: string; callId: string }[] {
    return this.values().map(({ claim: { claimId, callId } }) => ({ claimId, callId }));
  }

  /** Everything held, with as much of the progress that is due as fits; `more` when some did not. */
  heartbeat(): { beat: MessageInitShape<typeof HeartbeatSchema>; more: boolean } {
    const progress: { claimId: string; progressJson: string }[] = [];
    let room = PROGRESS_PER_HEARTBEAT;
    let more = false;
    for (const held of this.#held.values()) {
      if (!held.progressDue || held.progressJson === undefined) continue;
      if (held.progressJson.length > room) {
        more = true;
        continue;
      }
      room -= held.progressJson.length;
      held.progressDue = false;
      progress.push({ claimId: held.id, progressJson: held.progressJson });
    }
    return { beat: { claims: [...this.#held.keys()], progress }, more };
  }

  /** On a new stream nobody knows what arrived on the last one. */
  repeatProgress(): void {
    for (const held of this.#held.values()) held.progressDue = held.progressJson !== undefined;
  }
}
