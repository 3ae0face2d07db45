import { once } from "node:events";
import * as http2 from "node:http2";
import { connect as connectTcp } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { CallService, DriveRequestSchema } from "@trunkline/proto/call";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { ServerReflection } from "@trunkline/proto/reflection";
import { WorkerService, WorkRequestSchema } from "@trunkline/proto/worker";
import { describe, expect, onTestFinished, test } from "vitest";
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
  const host = "h".repeat(64 * 1024);
  let growth = 0;
  async function* questions() {
    const before = usedBytes();
    for (let asked = 0; asked < 400; asked++) {
      yield { host, messageRequest: { case: "fileByFilename", value: "none" } as const };
    }
    growth = usedBytes() - before;
  }
  let answers = 0;
  for await (const { messageResponse } of client.serverReflectionInfo(questions())) {
    expect(messageResponse.case).toBe("errorResponse");
    answers++;
  }
  expect(answers).toBe(400);
  // Those that are still on their way are held by the windows of the connection.
  expect(growth).toBeLessThan(10 * MIB);
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
  expect(status).toBe("13");
  await closed;
  expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
});

describe("a client that goes away while it is looked up who it is", () => {
  const CALLER: Caller = {
    kind: "anyone",
    id: "",
    scope: { projectId: 1, namespace: null },
    rights: new Set(),
    expiresAt: null,
  };

  /** A server whose door opens when the test says so; it counts what it serves. */
  async function slow() {
    const door = gate();
    const seen = { asked: 0, left: 0, served: 0 };
    const admit = async (): Promise<Caller> => {
      seen.asked++;
      await door.promise;
      return CALLER;
    };
    const handle = requestHandler({
      gate: { admit },
      routes: (router) => {
        router.service(Health, {
          check: () => {
            seen.served++;
            return { status: Status.SERVING };
          },
        });
      },
      streams: [
        grpcStream({
          method: CallService.method.drive,
          async *serve() {
            seen.served++;
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
        response.once("close", () => seen.left++);
        handle(request, response);
      },
    });
    onTestFinished(() => listener.close({ graceMs: 0 }));
    const leave = async (go: () => void): Promise<number> => {
      await until("it is asked who that is", () => seen.asked === 1);
      go();
      await until("the client is gone", () => seen.left === 1);
      door.open();
      await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setImmediate(resolve));
      return seen.served;
    };
    return { listener, leave };
  }

  test("is not served by HTTP/1.1: a poll would take calls for nobody", async () => {
    const { listener, leave } = await slow();
    const socket = connectTcp(listener.port, "127.0.0.1");
    const head = ["host: x", "content-type: application/json", "content-length: 2"];
    socket.write([`POST /${Health.typeName}/Check HTTP/1.1`, ...head, "", "{}"].join("\r\n"));
    expect(await leave(() => socket.destroy())).toBe(0);
  });

  test("is not served on a stream", async () => {
    const { listener, leave } = await slow();
    const stream = openStream(listener.url, `/${CallService.typeName}/Drive`);
    stream.write(framed(toBinary(DriveRequestSchema, create(DriveRequestSchema, { ping: 1 }))));
    expect(await leave(() => stream.close(http2.constants.NGHTTP2_CANCEL))).toBe(0);
  });
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
