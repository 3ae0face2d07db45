import type { DriveResponse, NewCall } from "@trunkline/proto/call";

/** A call to open. */
export interface OpenItem {
  readonly kind: "open";
  readonly open: NewCall;
  readonly bytes: number;
  /** Whether it has left on some carrier. */
  sent: boolean;
  /** Whether it is no longer wanted; then it does not leave. */
  withdrawn: boolean;
}

/** What is sent by a {@link DriveCarrier}. */
export type DriveItem = OpenItem | { readonly kind: "watch"; readonly callId: string };

/** What carries the calls of a client: a `Drive` stream, or single requests. */
export interface DriveCarrier {
  /** Whether the outcomes of calls that were opened on it come by themselves; else they have to be watched. */
  readonly delivers: boolean;
  /** The server's heartbeat interval, from the welcome on. */
  readonly intervalMs: number;
  /** Sends an item, once the carrier is welcomed. */
  send(item: DriveItem): void;
  /** Whether it keeps the process alive. */
  keepAlive(on: boolean): void;
  /** Ends in order: another carrier was welcomed. */
  end(): void;
  /** Ends at once, its connection too. */
  drop(cause: Error): void;
}

/** What a {@link DriveCarrier} asks and tells its owner. */
export interface DriveCarrierOwner {
  onWelcome(carrier: DriveCarrier): void;
  onFrame(carrier: DriveCarrier, frame: DriveResponse): void;
  /** Whether somebody still waits for the call; if not, it is watched no more. */
  isAwaited(callId: string): boolean;
  /** Once. The cause is undefined when it ended in order. */
  onEnd(carrier: DriveCarrier, cause: unknown): void;
}
