import { toBinary } from "@bufbuild/protobuf";
import { NewCallSchema, type CallSpec, type NewCall, type Opened } from "@trunkline/proto/call";
import type { OpenItem } from "./drive-carrier.js";
import type { WatchedCall } from "./watched-call.js";

/** What an open takes in a frame beside its input, roughly, in bytes. */
const OPEN_BYTES = 300;

/** A call to open, until the server has stored it. */
export class PendingOpen implements OpenItem {
  readonly kind = "open";
  readonly open: NewCall;
  readonly bytes: number;
  sent = false;
  withdrawn = false;
  /** Aborting it takes the open back. */
  readonly signal: AbortSignal | undefined;
  /** Ends the listening to the signal. */
  forget: (() => void) | undefined;
  /** The server has stored it. */
  stored: (call: WatchedCall, opened: Opened) => void;
  /** It will not be stored, or nobody knows. */
  readonly reject: (error: Error) => void;

  constructor(
    runId: string,
    spec: CallSpec,
    signal: AbortSignal | undefined,
    stored: PendingOpen["stored"],
    reject: PendingOpen["reject"],
  ) {
    this.open = { $typeName: "trunkline.v1.NewCall", request: 0, runId, call: spec };
    this.bytes = Buffer.byteLength(spec.inputJson) + OPEN_BYTES;
    this.signal = signal;
    this.stored = stored;
    this.reject = reject;
  }

  /** Whether it can be written at all. */
  get sendable(): boolean {
    try {
      toBinary(NewCallSchema, this.open);
      return true;
    } catch {
      return false;
    }
  }
}
