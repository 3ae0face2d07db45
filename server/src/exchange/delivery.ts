import type { Call, ClaimedCall } from "../core/call.js";
import type { RevokeCause } from "../core/event.js";
import type { TrunklineError } from "../core/error.js";
import type { Instant } from "../store/rows.js";

/** A claim on its way to its worker. */
export interface Delivery {
  readonly call: ClaimedCall;
  readonly inputJson: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly traceparent: string;
  /** Until the attempt or the call times out; null without such a limit. */
  readonly timeLeftMs: number | null;
}

/** A worker's open stream, or a request of it that waits for claims, as the exchange sees it. */
export interface WorkSink {
  /** Whether it is such a request: then no node has the session once it has ended. */
  readonly polls: boolean;
  /** Puts a claim into the next frame. */
  offer(delivery: Delivery): void;
  /** The claim's acceptance is stored. */
  confirm(claimId: string): void;
  revoke(claimId: string, cause: RevokeCause): void;
  /** The session, which drains, holds no claim any more. */
  drained(): void;
  /** Ends the stream with an error. */
  end(error: TrunklineError): void;
}

/** How a call ended, with the database's time of it. */
export interface Outcome {
  readonly call: Extract<Call, { state: "succeeded" | "failed" | "canceled" }>;
  readonly endedAt: Instant | null;
}
