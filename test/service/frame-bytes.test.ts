import { create, fromBinary, toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { DriveRequestSchema, DriveResponseSchema } from "@trunkline/proto/call";
import { CallState, FailureKind } from "@trunkline/proto/model";
import { WorkResponseSchema } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { frameBytes } from "../../server/src/service/frame-bytes.js";

const THRESHOLD = LIMITS.frameTargetBytes;

/** Texts of at most so many bytes, by the width of their characters. */
const TEXTS: readonly [name: string, character: string, bytes: number][] = [
  ["one byte", "x", 1],
  ["two bytes", "é", 2],
  ["three bytes", "漢", 3],
  ["four bytes", "😀", 4],
];

const text = (character: string, bytes: number, maxBytes: number): string =>
  `"${character.repeat((maxBytes - 2) / bytes)}"`;

/** The message in a frame, whose envelope is checked. */
function messageIn<D extends DescMessage>(schema: D, frame: Buffer): MessageShape<D> {
  expect(frame.readUInt8(0)).toBe(0);
  expect(frame.readUInt32BE(1)).toBe(frame.length - 5);
  return fromBinary(schema, frame.subarray(5));
}

const timestamp = { seconds: 1_700_000_000n, nanos: 5 };

/** Claims with all their fields, and with none but the text. */
const claims = (inputJson: string) => [
  { inputJson },
  {
    claimId: "claim",
    callId: "run/1",
    attempt: 3,
    tool: "tool",
    inputJson,
    namespace: "acme",
    labels: { a: "1", "": "é" },
    confirm: true,
    timeLeft: { seconds: 5n, nanos: 1 },
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  },
];

const outcomes = (resultJson: string) => [
  { resultJson },
  {
    callId: "run/1",
    key: "key",
    turn: 0,
    tool: "tool",
    state: CallState.SUCCEEDED,
    resultJson,
    failure: { kind: FailureKind.TOOL, message: "m", dataJson: "{}" },
    attempt: 2,
    endedAt: timestamp,
  },
];

/** What else a frame may have. */
const work = {
  welcome: { node: "n", heartbeatInterval: { seconds: 5n } },
  confirmed: ["a", "b"],
  acks: [{ claimId: "c" }, {}],
  heartbeatAck: {},
  goaway: {},
};
const drive = {
  welcome: { node: "n" },
  runs: [{ request: 1 }],
  opened: [{}, {}],
  done: [{ request: 2 }],
  pong: 0,
  goaway: {},
};

describe("a frame that is written decodes to its message", () => {
  test.each(TEXTS)("with a large text whose characters have %s", (_, character, width) => {
    const sizes = [THRESHOLD - 1, THRESHOLD, THRESHOLD + 1, THRESHOLD * width, LIMITS.payloadBytes];
    for (const inputJson of sizes.map((size) => text(character, width, size))) {
      for (const claim of claims(inputJson)) {
        for (const rest of [{}, work]) {
          const message = create(WorkResponseSchema, { ...rest, claims: [claim] });
          const bytes = frameBytes(WorkResponseSchema, message, LIMITS.frameBytes);
          expect(messageIn(WorkResponseSchema, bytes)).toStrictEqual(message);
          expect(message.claims[0]?.inputJson).toBe(inputJson);
        }
      }
      for (const outcome of outcomes(inputJson)) {
        for (const rest of [{}, drive]) {
          const message = create(DriveResponseSchema, { ...rest, outcomes: [outcome] });
          const bytes = frameBytes(DriveResponseSchema, message, LIMITS.frameBytes);
          expect(messageIn(DriveResponseSchema, bytes)).toStrictEqual(message);
        }
      }
    }
  });

  test("with several large texts, with none, and of another kind", () => {
    const large = text("é", 2, LIMITS.payloadBytes);
    const several = create(WorkResponseSchema, { claims: [...claims(large), ...claims("1")] });
    expect(
      messageIn(WorkResponseSchema, frameBytes(WorkResponseSchema, several, LIMITS.frameBytes)),
    ).toStrictEqual(several);
    const both = create(DriveResponseSchema, { outcomes: outcomes(large) });
    expect(
      messageIn(DriveResponseSchema, frameBytes(DriveResponseSchema, both, LIMITS.frameBytes)),
    ).toStrictEqual(both);
    const empty = create(DriveResponseSchema);
    expect(frameBytes(DriveResponseSchema, empty, LIMITS.frameBytes)).toEqual(Buffer.alloc(5));
    const other = create(DriveRequestSchema, { opens: [{ call: { inputJson: large } }] });
    expect(
      messageIn(DriveRequestSchema, frameBytes(DriveRequestSchema, other, LIMITS.frameBytes)),
    ).toStrictEqual(other);
  });

  test("with a text that is larger than a payload", () => {
    const message = create(DriveResponseSchema, {
      outcomes: [{ resultJson: text("é", 2, 3 * 1024 * 1024) }],
    });
    const bytes = frameBytes(DriveResponseSchema, message, LIMITS.frameBytes);
    expect(messageIn(DriveResponseSchema, bytes)).toStrictEqual(message);
  });

  test("with what UTF-8 cannot carry replaced, as the library does", () => {
    const message = create(WorkResponseSchema, {
      claims: [{ inputJson: `${"x".repeat(THRESHOLD)}\ud83d!` }],
    });
    const decoded = messageIn(WorkResponseSchema, frameBytes(WorkResponseSchema, message, LIMITS.frameBytes));
    expect(decoded).toStrictEqual(fromBinary(WorkResponseSchema, toBinary(WorkResponseSchema, message)));
  });

  test("in as many bytes as the library takes", () => {
    for (const size of [THRESHOLD, LIMITS.payloadBytes]) {
      const message = create(DriveResponseSchema, {
        ...drive,
        outcomes: outcomes(text("é", 2, size)).slice(1),
      });
      const { length } = toBinary(DriveResponseSchema, message);
      expect(frameBytes(DriveResponseSchema, message, LIMITS.frameBytes)).toHaveLength(5 + length);
    }
  });
});

test.each([10, THRESHOLD, LIMITS.payloadBytes, 2 * LIMITS.payloadBytes])(
  "a message above the limit is refused, and one at the limit is not: a text of %i bytes",
  (size) => {
    const message = create(DriveResponseSchema, { outcomes: [{ resultJson: text("é", 2, size) }] });
    const { length } = toBinary(DriveResponseSchema, message);
    expect(frameBytes(DriveResponseSchema, message, length)).toHaveLength(5 + length);
    expect(() => frameBytes(DriveResponseSchema, message, length - 1)).toThrow(
      new ConnectError(
        `message size ${length} is larger than configured writeMaxBytes ${length - 1}`,
        Code.ResourceExhausted,
      ),
    );
  },
);
