import { expect, test } from "vitest";
import { EnvelopeReader, type Envelope } from "../../../client/src/browser/envelope-reader.js";

function envelope(flags: number, text: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

function reader(bytes: Uint8Array, chunkBytes: number): EnvelopeReader {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) chunks.push(bytes.subarray(at, at + chunkBytes));
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const chunk = chunks.shift();
      if (chunk === undefined) controller.close();
      else controller.enqueue(chunk);
    },
  });
  return new EnvelopeReader(body);
}

async function readAll(from: EnvelopeReader): Promise<Envelope[]> {
  const all: Envelope[] = [];
  for (let next = await from.next(); next !== undefined; next = await from.next()) all.push(next);
  return all;
}

const SENT = [
  { flags: 0, text: '{"a":"é€😀"}' },
  { flags: 0, text: "" },
  { flags: 2, text: "{}" },
];
const BYTES = Buffer.concat(SENT.map(({ flags, text }) => envelope(flags, text)));

test.each([1, 2, 3, 7, 1000])("messages come whole when %i bytes arrive at a time", async (chunkBytes) => {
  expect(await readAll(reader(BYTES, chunkBytes))).toEqual(SENT);
});

test("a stream that ends within a message, and one that announces what no message is, is a cut", async () => {
  const whole = envelope(0, "{}");
  for (const bytes of [whole.subarray(0, 3), whole.subarray(0, 5), whole.subarray(0, 6)]) {
    await expect(readAll(reader(bytes, 2))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  }
  const html = Buffer.from("<html>hello");
  await expect(readAll(reader(html, 1000))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});
