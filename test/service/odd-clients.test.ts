import { once } from "node:events";
import * as http2 from "node:http2";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { CallService, DriveRequestSchema } from "@trunkline/proto/call";
import { ServerReflection } from "@trunkline/proto/reflection";
import { WorkerService, WorkRequestSchema } from "@trunkline/proto/worker";
import { expect, onTestFinished, test } from "vitest";
import type { Caller } from "../../server/src/core/caller.js";
import { grpcStream } from "../../server/src/service/grpc-stream.js";
import { listen } from "../../server/src/service/listener.js";
import { requestHandler } from "../../server/src/service/request-handler.js";
import { gate } from "../client/support/claim.js";
import { until } from "../support/until.js";
import { useNode } from "./node.js";
import { newHello } from "./raw-stream.js";

const it = useNode();
const MIB = 1024 * 1024;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function usedBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const framed = (message: Uint8Array): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

const CALLER: Caller = {
  kind: "anyone",
  id: "",
  scope: { projectId: 1, namespace: null },
  rights: new Set(),
  expiresAt: null,
};

/** A stream in bytes, on a connection of its own. */
function openStream(url: string, path: string, settings: http2.Settings = {}): http2.ClientHttp2Stream {
  const session = http2.connect(url, { settings });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":path": path,
    ":method": "POST",
    "content-type": "application/grpc",
    te: "trailers",
  });
  return stream.on("error", () => undefined);
}

test("a reflection stream keeps nothing of the questions that it has answered", async () => {
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: it.node.url }));
  const count = 400;
  const host = "h".repeat(64 * 1024);
  const answered = gate();
  async function* questions() {
    for (let asked = 0; asked < count; asked++) {
      yield { host, messageRequest: { case: "fileByFilename", value: "none" } as const };
    }
    await answered.promise;
  }
  const before = usedBytes();
  let answers = 0;
  for await (const { messageResponse } of client.serverReflectionInfo(questions())) {
    expect(messageResponse.case).toBe("errorResponse");
    if (++answers < count) continue;
    await until("what they took is free again", () => usedBytes() - before < 8 * MIB, 5_000);
    answered.open();
  }
  expect(answers).toBe(count);
});

test("a worker that says much and reads nothing is let go before its replies fill the memory", async () => {
  const hello = newHello();
  // It gives the server no room to send anything.
  const stream = openStream(it.node.url, `/${WorkerService.typeName}/Work`, { initialWindowSize: 0 });
  stream.write(framed(toBinary(WorkRequestSchema, create(WorkRequestSchema, { hello }))));
  const ids = Array.from({ length: 30 }, (_, index) => `${index}`.padEnd(100_000, "x"));
  const beat = create(WorkRequestSchema, { heartbeat: { claims: ids } });
  const bytes = framed(toBinary(WorkRequestSchema, beat));
  const before = usedBytes();
  for (let beats = 0; beats < 60; beats++) {
    if (!stream.write(bytes)) await once(stream, "drain");
  }
  await until(
    "the stream is let go",
    () => ![...it.node.exchange.sessions.all()].some(({ facts }) => facts.sessionId === hello.sessionId),
  );
  expect(usedBytes() - before).toBeLessThan(60 * MIB);
  expect(it.node.faults).toEqual([]);
});

test("a stream that the server has ended is over, though its client goes on sending", async () => {
  const stream = openStream(it.node.url, `/${WorkerService.typeName}/Work`);
  const trailers = once(stream, "trailers");
  const closed = once(stream, "close");
  stream.resume();
  // No frame of a worker begins like this.
  stream.write(framed(Buffer.from([0xff])));
  const sending = setInterval(() => {
    if (stream.writable) stream.write(Buffer.alloc(1_000));
  }, 10);
  onTestFinished(() => clearInterval(sending));
  const [{ "grpc-status": status }] = (await trailers) as [http2.IncomingHttpHeaders];
  expect(Number(status)).toBeGreaterThan(0);
  await closed;
  expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
});

test("a client that goes away while it is looked up who it is is not served on a stream", async () => {
  const door = gate();
  const seen = { asked: false, left: false, served: false };
  const admit = async (): Promise<Caller> => {
    seen.asked = true;
    await door.promise;
    return CALLER;
  };
  const handle = requestHandler({
    gate: { admit },
    routes: () => undefined,
    streams: [
      grpcStream({
        method: CallService.method.drive,
        async *serve() {
          seen.served = true;
        },
        admit,
        readMaxBytes: MIB,
        writeMaxBytes: MIB,
        onError: () => undefined,
      }),
    ],
  });
  const listener = await listen({
    host: "127.0.0.1",
    port: 0,
    handler: (request, response) => {
      response.once("close", () => (seen.left = true));
      handle(request, response);
    },
  });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  const stream = openStream(listener.url, `/${CallService.typeName}/Drive`);
  stream.write(framed(toBinary(DriveRequestSchema, create(DriveRequestSchema, { ping: 1 }))));
  await until("it is asked who that is", () => seen.asked);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until("the client is gone", () => seen.left);
  door.open();
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  expect(seen.served).toBe(false);
});

test("the types that clients give their requests are not kept", async () => {
  const path = "/trunkline.v1.RunService/ListRuns";
  const session = http2.connect(it.node.url);
  onTestFinished(() => session.destroy());
  const ask = async (type: string): Promise<unknown> => {
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": type });
    stream.resume().end("{}");
    const [head] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    await once(stream, "close");
    return head[":status"];
  };
  for (let asked = 0; asked < 50; asked++) expect(await ask(`a/${asked}`)).toBe(415);
  const before = usedBytes();
  for (let asked = 0; asked < 500; asked++) {
    expect(await ask(`application/json; ${String(asked).padEnd(20_000, "x")}`)).toBe(415);
  }
  expect(usedBytes() - before).toBeLessThan(4 * MIB);
});

test("a settlement whose body has a hundred thousand members, one of them twice, holds up nobody", async () => {
  const members = Array.from({ length: 100_000 }, (_, index) => `"m${index % 99_999}":1`);
  const began = performance.now();
  const response = await fetch(`${it.node.url}/api/machine/sessions/x/calls/settle`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: `{${members.join()}}`,
  });
  expect(response.status).toBe(400);
  expect(await response.text()).toContain('body has \\"m0\\" twice');
  expect(performance.now() - began).toBeLessThan(2_000);
});
