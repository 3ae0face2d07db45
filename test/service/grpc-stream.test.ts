import { once } from "node:events";
import * as http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { compressionGzip } from "@connectrpc/connect-node";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CallService, DriveRequestSchema, DriveResponseSchema } from "@trunkline/proto/call";
import type { DriveRequest, DriveResponse } from "@trunkline/proto/call";
import { expect, onTestFinished, test } from "vitest";
import type { Caller } from "../../server/src/core/caller.js";
import { TrunklineError } from "../../server/src/core/error.js";
import { grpcStream } from "../../server/src/service/grpc-stream.js";
import { listen } from "../../server/src/service/listener.js";
import { requestHandler } from "../../server/src/service/request-handler.js";
import { throughout, until } from "../support/until.js";

const MOST_BYTES = 4 * 1024 * 1024;
const CALLER: Caller = {
  kind: "anyone",
  id: "",
  scope: { projectId: 1, namespace: null },
  rights: new Set(),
  expiresAt: null,
};

type Serve = (requests: AsyncIterable<DriveRequest>, signal: AbortSignal) => AsyncIterable<DriveResponse>;

/** Answers each frame with one that has as many runs, and has them numbered alike. */
async function* echo(requests: AsyncIterable<DriveRequest>): AsyncGenerator<DriveResponse> {
  for await (const { runs } of requests) yield reply(...runs.map(({ request }) => request));
}

const reply = (...numbers: number[]): DriveResponse =>
  create(DriveResponseSchema, { runs: numbers.map((request) => ({ request })) });

const framed = (bytes: Uint8Array, flags = 0, length = bytes.length): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
};

const frame = (number: number, key = ""): Buffer =>
  framed(
    toBinary(DriveRequestSchema, create(DriveRequestSchema, { runs: [{ request: number, spec: { key } }] })),
  );

/** A server with one stream, and a client that writes bytes to it. */
async function serving(serve: Serve) {
  const faults: unknown[] = [];
  async function* other(): AsyncGenerator<DriveResponse> {
    yield reply(404);
  }
  const handler = requestHandler({
    gate: { admit: async () => CALLER },
    routes: (router) => {
      router.service(CallService, { drive: other });
    },
    streams: [
      grpcStream({
        method: CallService.method.drive,
        serve: (requests, _caller, signal) => serve(requests, signal),
        admit: async (authorization) => {
          if (authorization === "none") throw new TrunklineError("UNAUTHENTICATED", "no such key");
          return CALLER;
        },
        readMaxBytes: MOST_BYTES,
        writeMaxBytes: MOST_BYTES,
        onError: (error) => faults.push(error),
      }),
    ],
  });
  const listener = await listen({ host: "127.0.0.1", port: 0, handler });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  const session = http2.connect(listener.url);
  onTestFinished(() => session.destroy());
  return { faults, open: (headers: http2.OutgoingHttpHeaders = {}) => new Wire(session, headers) };
}

/** The client's end of one stream, in bytes. */
class Wire {
  readonly stream: http2.ClientHttp2Stream;
  readonly ended: Promise<string>;
  #bytes = Buffer.alloc(0);

  constructor(session: http2.ClientHttp2Session, headers: http2.OutgoingHttpHeaders) {
    this.stream = session.request({
      ":path": `/${CallService.typeName}/Drive`,
      ":method": "POST",
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    this.stream.on("error", () => undefined);
    this.stream.on("data", (chunk: Buffer) => (this.#bytes = Buffer.concat([this.#bytes, chunk])));
    this.ended = once(this.stream, "trailers").then(([trailers]) => {
      const { "grpc-status": status } = trailers as http2.IncomingHttpHeaders;
      return Code[Number(status)] ?? String(status);
    });
    this.ended.catch(() => undefined);
  }

  get text(): string {
    return this.#bytes.toString();
  }

  /** The numbers of all that was answered. */
  get answers(): number[] {
    const numbers: number[] = [];
    for (let at = 0; this.#bytes.length >= at + 5;) {
      const end = at + 5 + this.#bytes.readUInt32BE(at + 1);
      if (this.#bytes.length < end) break;
      const { runs } = fromBinary(DriveResponseSchema, this.#bytes.subarray(at + 5, end));
      numbers.push(...runs.map(({ request }) => request));
      at = end;
    }
    return numbers;
  }
}

test("frames are read however they are cut, and the stream ends in order", async () => {
  const { open, faults } = await serving(echo);
  const wire = open();
  const large = frame(4, "x".repeat(100_000));
  const bytes = Buffer.concat([frame(1), frame(2), framed(new Uint8Array()), frame(3), large, frame(5)]);
  for (let at = 0; at < 40; at++) {
    wire.stream.write(bytes.subarray(at, at + 1));
    await new Promise((resolve) => setImmediate(resolve));
  }
  wire.stream.end(bytes.subarray(40));
  expect(await wire.ended).toBe("0");
  expect(wire.answers).toEqual([1, 2, 3, 4, 5]);
  expect(faults).toEqual([]);
});

test.each([
  ["one that is too large", framed(new Uint8Array(), 0, MOST_BYTES + 1), "ResourceExhausted"],
  ["one that is no message", framed(Buffer.from([0xff, 0xff])), "InvalidArgument"],
  ["one that says to be compressed", framed(new Uint8Array(), 1), "Internal"],
  ["one that is cut off by the end", frame(9).subarray(0, -1), "InvalidArgument"],
])("a frame that cannot be read ends the stream with what is wrong: %s", async (_, bytes, code) => {
  const { open, faults } = await serving(echo);
  const wire = open();
  wire.stream.write(frame(1));
  await until("an answer", () => wire.answers.length === 1);
  wire.stream.end(bytes);
  expect(await wire.ended).toBe(code);
  expect(faults).toEqual([]);
});

test("what a service throws is the status of its stream, and a fault is told", async () => {
  const { open, faults } = await serving(async function* (requests) {
    for await (const { runs } of requests) {
      yield reply(7);
      throw runs[0]?.request === 1 ? new TrunklineError("SUPERSEDED", "by another") : new RangeError("a bug");
    }
  });
  for (const [number, code] of [
    [1, "Aborted"],
    [2, "Internal"],
  ] as const) {
    const wire = open();
    wire.stream.write(frame(number));
    expect(await wire.ended).toBe(code);
    expect(wire.answers).toEqual([7]);
  }
  expect(faults).toEqual([expect.any(RangeError)]);
});

test("a request that is refused at the door is not served", async () => {
  let served = 0;
  const { open } = await serving((requests) => {
    served++;
    return echo(requests);
  });
  expect(await open({ authorization: "none" }).ended).toBe("Unauthenticated");
  expect(served).toBe(0);
});

test.each([
  ["resets its stream", (wire: Wire) => wire.stream.close(http2.constants.NGHTTP2_CANCEL)],
  ["loses its connection", (wire: Wire) => wire.stream.session?.destroy()],
])("a client that %s is said to be gone, and what it was served ends", async (_, cut) => {
  let gone: AbortSignal | undefined;
  let left = false;
  const { open, faults } = await serving(async function* (requests, signal) {
    gone = signal;
    try {
      yield reply(1);
      yield* echo(requests);
    } finally {
      left = true;
    }
  });
  const wire = open();
  await until("an answer", () => wire.answers.length === 1);
  expect({ left, gone: gone?.aborted }).toEqual({ left: false, gone: false });
  cut(wire);
  await until("the end", () => left && gone?.aborted);
  expect(faults).toEqual([]);
});

test("a client that does not read holds up what it is served", async () => {
  let made = 0;
  let left = false;
  const { open } = await serving(async function* () {
    try {
      for (; made < 10_000; made++) yield reply(...Array.from({ length: 10_000 }, (_, index) => index));
    } finally {
      left = true;
    }
  });
  const wire = open();
  wire.stream.pause();
  await until("frames", () => made > 0);
  await throughout(200, () => expect(made).toBeLessThan(1_000));
  wire.stream.close(http2.constants.NGHTTP2_CANCEL);
  await until("it is let go", () => left);
  expect(made).toBeLessThan(1_000);
});

test("a service that does not ask for frames holds up its client", async () => {
  let asked = (): void => undefined;
  const { open } = await serving(async function* (requests) {
    yield reply(0);
    await new Promise<void>((resolve) => (asked = resolve));
    yield* echo(requests);
  });
  const wire = open();
  const count = 100;
  for (let number = 1; number <= count; number++) wire.stream.write(frame(number, "x".repeat(100_000)));
  wire.stream.end();
  await until("the first answer", () => wire.answers.length === 1);
  // The window of a stream is one MiB.
  await throughout(200, () => expect(wire.stream.writableLength).toBeGreaterThan(7_000_000));
  asked();
  expect(await wire.ended).toBe("0");
  expect(wire.answers).toEqual(Array.from({ length: count + 1 }, (_, index) => index));
});

test.each<[string, http2.OutgoingHttpHeaders]>([
  ["a deadline", { "grpc-timeout": "10S" }],
  ["compression", { "grpc-encoding": compressionGzip.name }],
  ["JSON", { "content-type": "application/grpc+json" }],
])("a request with %s is left to connect-node", async (_, headers) => {
  const { open } = await serving(echo);
  const wire = open(headers);
  wire.stream.end();
  expect(await wire.ended).toBe("0");
  // The other handler says so, in whatever way was asked for.
  if (headers["content-type"] === undefined) expect(wire.answers).toEqual([404]);
  else await until("an answer in JSON", () => wire.text.includes("404"));
});
