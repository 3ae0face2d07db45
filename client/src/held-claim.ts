import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Claim } from "@trunkline/proto/worker";

/**
 * Where a claim stands in its worker.
 *
 * - `unconfirmed`: accepted; the server has yet to say that the acceptance is stored
 * - `ready`: its handler may start, and will in the next turn of the event loop
 * - `running`: its handler was started
 * - `over`: its handler has ended, or will never be started
 */
export type Standing = "unconfirmed" | "ready" | "running" | "over";

/** A claim from its receipt to the acknowledgement of what became of it. */
export class HeldClaim {
  readonly claim: Claim;
  /** When the attempt or the call times out, by this machine's clock; undefined without a limit. */
  readonly deadline: Date | undefined;
  standing: Standing;
  /** The last progress, as JSON text. */
  progressJson: string | undefined;
  /** Whether the progress is still to be sent. */
  progressDue = false;
  #abort: AbortController | undefined;
  #loss: Error | undefined;

  constructor(claim: Claim) {
    this.claim = claim;
    this.standing = claim.confirm ? "unconfirmed" : "ready";
    this.deadline =
      claim.timeLeft === undefined ? undefined : new Date(Date.now() + durationMs(claim.timeLeft));
  }

  /** Aborts when the claim is lost. Made when somebody asks: it costs as much as all the rest of a claim. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#loss !== undefined) this.#abort.abort(this.#loss);
    }
    return this.#abort.signal;
  }

  /** Whether the claim was lost. */
  get lost(): boolean {
    return this.#loss !== undefined;
  }

  /** The claim is lost, for this reason; the first one counts. */
  lose(error: Error): void {
    this.#loss ??= error;
    this.#abort?.abort(this.#loss);
  }

  get id(): string {
    return this.claim.claimId;
  }

  /** Whether handing it back is still allowed: its handler has not started and nobody counts on it. */
  get releasable(): boolean {
    return this.standing === "unconfirmed" || (this.standing === "ready" && !this.claim.confirm);
  }
}
