import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HeartbeatSchema, HelloSchema, Welcome, WorkResponse } from "@trunkline/proto/worker";
import type { OutboxItem } from "./outbox.js";

/** What carries a worker's session: a `Work` stream, or its unary twins. */
export interface WorkCarrier {
  /** The server's heartbeat interval, from the welcome on. */
  readonly intervalMs: number;
  /** Whether this carrier's hello named a claim, and so accepted it. */
  hasNamed(claimId: string): boolean;
  /** Says that a claim was received and will be run. */
  accept(claimId: string): void;
  /** Sends an item of the outbox. */
  send(item: OutboxItem): void;
  /** So many handler slots became free. What is free at a hello is counted there. */
  grant(slots: number): void;
  heartbeat(): void;
  /** Says hello again by itself, soon; false where that takes another carrier. */
  greetAgain(): boolean;
  /** Asks for no more claims; `drained` follows. */
  drain(): void;
  /** Sends what is ready now. */
  flush(): void;
  /**
   * Another carrier is tried beside it: it asks for no claims until the next {@link grant}. What came meanwhile would
   * not be in the other one's hello, and so be lost.
   */
  rest(): void;
  /** Another carrier was welcomed. */
  replaced(): void;
  /** Ends in order: everything is said. */
  end(): void;
  /** Ends at once, its connection too. */
  drop(cause: Error): void;
}

/** What a {@link WorkCarrier} asks and tells its session. */
export interface WorkCarrierOwner {
  /** Handler slots that are free now, if any claim is wanted. */
  readonly freeSlots: number;
  /** All claims held. */
  named(): { readonly claimId: string; readonly callId: string }[];
  /** At the moment when a hello leaves. */
  buildHello(carrier: WorkCarrier): MessageInitShape<typeof HelloSchema>;
  /** At the moment when a heartbeat leaves. */
  buildHeartbeat(): MessageInitShape<typeof HeartbeatSchema>;
  onWelcome(carrier: WorkCarrier, welcome: Welcome): void;
  onFrame(carrier: WorkCarrier, frame: WorkResponse): void;
  /** Whether this carrier is the one to send heartbeats on. */
  isActive(carrier: WorkCarrier): boolean;
  /** Once. The cause is undefined when it ended in order. */
  onEnd(carrier: WorkCarrier, cause: unknown): void;
}
