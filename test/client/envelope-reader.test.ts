import { describe, expect, test } from "vitest";
import { EnvelopeReader } from "../../client/src/envelope-reader.js";
import { LIMITS } from "../../client/src/limits.js";

function enveloped(text: string): Buffer {
  const message = Buffer.from(text);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function readAll(chunks: readonly Buffer[]): string[] {
  const reader = new EnvelopeReader();
  const messages: string[] = [];
  for (const chunk of chunks) reader.read(chunk, (bytes) => messages.push(Buffer.from(bytes).toString()));
  reader.end();
  return messages;
}

describe("the messages of a stream", () => {
  const whole = Buffer.concat([enveloped("one"), enveloped(""), enveloped("three".repeat(100))]);
  const expected = ["one", "", "three".repeat(100)];

  test.each([1, 2, 4, 5, 6, 7, 9, 100, whole.length])("come whole out of chunks of %i bytes", (size) => {
    const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, index) =>
      whole.subarray(index * size, (index + 1) * size),
    );
    expect(readAll(chunks)).toEqual(expected);
  });

  test("end in the middle of one: an error", () => {
    expect(() => readAll([whole.subarray(0, whole.length - 1)])).toThrow("incomplete envelope");
    expect(() => readAll([Buffer.alloc(3)])).toThrow("incomplete envelope");
  });

  test("are refused when compressed, and above the limit before they are read", () => {
    const compressed = enveloped("x");
    compressed.writeUInt8(1, 0);
    expect(() => readAll([compressed])).toThrow("compressed");
    const huge = Buffer.alloc(5);
    huge.writeUInt32BE(LIMITS.receivedFrameBytes + 1, 1);
    expect(() => readAll([huge])).toThrow(`message size ${LIMITS.receivedFrameBytes + 1} is larger`);
  });
});
