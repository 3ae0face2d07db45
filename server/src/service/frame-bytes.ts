import { isMessage, toBinary, type DescMessage, type Message, type MessageShape } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { DriveResponseSchema } from "@trunkline/proto/call";
import { OutcomeSchema } from "@trunkline/proto/model";
import { ClaimSchema, WorkResponseSchema } from "@trunkline/proto/worker";
import { LIMITS } from "../core/limits.js";
import { ENVELOPE_BYTES } from "./frame-reader.js";

/** From so many UTF-16 units on a text is written by itself: its item fills a frame, and is alone in it. */
const LARGE_TEXT = LIMITS.frameTargetBytes;

const NOTHING = new Uint8Array();

const ENCODER = new TextEncoder();

/**
 * Where a large text is encoded before it is copied to its place. To count its bytes beforehand takes longer, and so
 * does to touch fresh memory for all that it could have.
 */
const ENCODED = new Uint8Array(LIMITS.payloadBytes);

/** A frame with a large text, in the order in which it is written: nothing follows the text. */
interface LargeFrame {
  /** The frame without the item that has the text. */
  readonly frame: Uint8Array;
  readonly itemNumber: number;
  /** The item without its text. */
  readonly item: Uint8Array;
  readonly textNumber: number;
  /** Until the next text is encoded. */
  readonly text: Uint8Array;
}

/**
 * A message as gRPC carries it, in its envelope. A large text is encoded by itself: the library reserves three bytes
 * for each of its characters, all of them zeroed, and then moves what it wrote twice.
 *
 * @throws ConnectError RESOURCE_EXHAUSTED when the message has more than `maxBytes`
 */
export function frameBytes<D extends DescMessage>(
  schema: D,
  message: MessageShape<D>,
  maxBytes: number,
): Buffer {
  const large = largeFrameOf(message);
  if (large === undefined) return enveloped(toBinary(schema, message), NOTHING, maxBytes);
  return enveloped(headOf(large), large.text, maxBytes);
}

/** The frame in parts when its only item has a large text: an item that is large is alone in its frame. */
function largeFrameOf(frame: Message): LargeFrame | undefined {
  if (isMessage(frame, WorkResponseSchema)) {
    const [claim, another] = frame.claims;
    const text = another === undefined ? encodedIfLarge(claim?.inputJson) : undefined;
    if (claim === undefined || text === undefined) return undefined;
    return {
      frame: toBinary(WorkResponseSchema, { ...frame, claims: [] }),
      itemNumber: WorkResponseSchema.field.claims.number,
      item: toBinary(ClaimSchema, { ...claim, inputJson: "" }),
      textNumber: ClaimSchema.field.inputJson.number,
      text,
    };
  }
  if (isMessage(frame, DriveResponseSchema)) {
    const [outcome, another] = frame.outcomes;
    const text = another === undefined ? encodedIfLarge(outcome?.resultJson) : undefined;
    if (outcome === undefined || text === undefined) return undefined;
    return {
      frame: toBinary(DriveResponseSchema, { ...frame, outcomes: [] }),
      itemNumber: DriveResponseSchema.field.outcomes.number,
      item: toBinary(OutcomeSchema, { ...outcome, resultJson: "" }),
      textNumber: OutcomeSchema.field.resultJson.number,
      text,
    };
  }
  return undefined;
}

/** A text in UTF-8, unless it is small, or larger than any payload. */
function encodedIfLarge(text = ""): Uint8Array | undefined {
  if (text.length < LARGE_TEXT) return undefined;
  const { read, written } = ENCODER.encodeInto(text, ENCODED);
  return read === text.length ? ENCODED.subarray(0, written) : undefined;
}

/** All of a message that comes before its large text. */
function headOf({ frame, itemNumber, item, textNumber, text }: LargeFrame): Uint8Array {
  const textHead = new BinaryWriter().tag(textNumber, WireType.LengthDelimited).uint32(text.length).finish();
  return new BinaryWriter()
    .raw(frame)
    .tag(itemNumber, WireType.LengthDelimited)
    .uint32(item.length + textHead.length + text.length)
    .raw(item)
    .raw(textHead)
    .finish();
}

function enveloped(head: Uint8Array, text: Uint8Array, maxBytes: number): Buffer {
  const messageBytes = head.length + text.length;
  if (messageBytes > maxBytes) {
    const message = `message size ${messageBytes} is larger than configured writeMaxBytes ${maxBytes}`;
    throw new ConnectError(message, Code.ResourceExhausted);
  }
  const bytes = Buffer.allocUnsafe(ENVELOPE_BYTES + messageBytes);
  bytes.writeUInt8(0, 0);
  bytes.writeUInt32BE(messageBytes, 1);
  bytes.set(head, ENVELOPE_BYTES);
  bytes.set(text, ENVELOPE_BYTES + head.length);
  return bytes;
}
