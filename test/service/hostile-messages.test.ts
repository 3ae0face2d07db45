import { once } from "node:events";
import * as http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { type ConnectRouter } from "@connectrpc/connect";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { WorkRequestSchema } from "@trunkline/proto/worker";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { listen } from "../../server/src/service/listener.js";
import { requestHandler } from "../../server/src/service/request-handler.js";
import { gate } from "../client/support/claim.js";
import { throughout, until, within } from "../support/until.js";
import { useNode } from "./node.js";
import { askHttp2, session, type Answer } from "./plain-asking.js";
import { newHello } from "./raw-stream.js";

const it = useNode();
const MIB = 1024 * 1024;
const LIST_RUNS = "/trunkline.v1.RunService/ListRuns";
const SETTLE = "/trunkline.v1.CallService/SettleCalls";
const DRIVE = "/trunkline.v1.CallService/Drive";
const WORK = "/trunkline.v1.WorkerService/Work";

const ofType = (type: string): Record<string, string> => ({ "content-type": type });

function framed(message: Uint8Array | string, flags = 0): Buffer {
  const bytes = Buffer.from(message);
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** What an answer says in whatever words it has. */
function said({ status, headers, body }: Answer): string {
  const inTrailers = `${String(headers["grpc-status"])} ${decodeURIComponent(String(headers["grpc-message"]))}`;
  return `${status} ${inTrailers} ${body.toString("latin1")}`;
}

const CLIENTS_FAULT = /^400 .*invalid_argument|^200 3 |grpc-status: 3|"code":"invalid_argument"/;

beforeEach(() => {
  onTestFinished(() => expect(it.node.faults).toEqual([]));
});

describe("a message that cannot be read is its client's fault:", () => {
  const garbage = Buffer.from([0xff, 0xff]);
  const cutGzip = gzipSync("{}").subarray(0, 12);
  const gzip = { "content-encoding": "gzip" };
  test.each([
    ["by Connect", LIST_RUNS, ofType("application/proto"), garbage],
    ["by gRPC", LIST_RUNS, ofType("application/grpc"), framed(garbage)],
    ["by gRPC-Web", LIST_RUNS, ofType("application/grpc-web+proto"), framed(garbage)],
    ["by a stream of gRPC", DRIVE, ofType("application/grpc"), framed(garbage)],
    ["by a stream of Connect", DRIVE, ofType("application/connect+proto"), framed(garbage)],
    ["compressed, and cut", LIST_RUNS, { ...ofType("application/json"), ...gzip }, cutGzip],
  ])("%s", async (_, path, headers, body) => {
    expect(said(await askHttp2(it.node.url, { path, headers, body }))).toMatch(CLIENTS_FAULT);
  });
});

describe("half a surrogate pair where no text belongs is answered:", () => {
  const settle = '{"items":[{"attempt":"\\ud800"}]}';
  const drive = '{"opens":[{"request":"\\ud800"}]}';
  test.each([
    ["by Connect", SETTLE, ofType("application/json"), Buffer.from(settle)],
    ["by gRPC", SETTLE, ofType("application/grpc+json"), framed(settle)],
    ["by gRPC-Web", SETTLE, ofType("application/grpc-web+json"), framed(settle)],
    ["by a stream of gRPC", DRIVE, ofType("application/grpc+json"), framed(drive)],
    ["by a stream of gRPC-Web", DRIVE, ofType("application/grpc-web+json"), framed(drive)],
  ])("%s", async (_, path, headers, body) => {
    expect(said(await askHttp2(it.node.url, { path, headers, body }))).toMatch(CLIENTS_FAULT);
  });
});

test.each([
  { "content-type": "application/connect+json", "connect-timeout-ms": "2147483648" },
  { "content-type": "application/connect+json", "connect-timeout-ms": "9999999999" },
  { "content-type": "application/grpc+json", "grpc-timeout": "99999999H" },
])("a deadline that is further than a timer reaches has not passed (B07): %o", async (headers) => {
  const path = `/${Health.typeName}/Watch`;
  const stream = session(it.node.url).request({ ":method": "POST", ":path": path, ...headers });
  stream.on("error", () => undefined).end(framed("{}"));
  await within("the first message", once(stream, "data"));
  await throughout(100, () => expect(stream.closed).toBe(false));
});

describe("more items in one message than are allowed", () => {
  const tooMany = LIMITS.messageItems + 1;
  /** So many items of one field, with nothing in them. */
  const empties = (field: number): Buffer => Buffer.alloc(2 * tooMany, Buffer.from([field * 8 + 2, 0]));
  const refusal = `the message has ${tooMany} items; allowed are at most ${LIMITS.messageItems}`;

  test.each([
    ["application/grpc", framed(empties(2))],
    ["application/connect+json", framed(`{"opens":[${"{},".repeat(tooMany - 1)}{}]}`)],
  ])("end a Drive stream of %s", async (type, body) => {
    const answer = await askHttp2(it.node.url, { path: DRIVE, headers: ofType(type), body });
    expect(said(answer)).toContain(refusal);
  });

  test("end a Work stream, those within a heartbeat too", async () => {
    const hello = framed(toBinary(WorkRequestSchema, create(WorkRequestSchema, { hello: newHello() })));
    const claims = Array.from({ length: tooMany }, () => "");
    const beat = framed(toBinary(WorkRequestSchema, create(WorkRequestSchema, { heartbeat: { claims } })));
    const body = Buffer.concat([hello, beat]);
    const answer = await askHttp2(it.node.url, { path: WORK, headers: ofType("application/grpc"), body });
    expect(said(answer)).toContain(refusal);
  });

  test("refuse a request", async () => {
    const path = "/trunkline.v1.WorkerService/Heartbeat";
    const answer = await askHttp2(it.node.url, {
      path,
      headers: ofType("application/proto"),
      body: empties(3),
    });
    expect(answer.status).toBe(400);
    expect(said(answer)).toContain(refusal);
  });
});

test("a worker that says more than the database takes in is let go before that fills the memory", async () => {
  const stream = session(it.node.url).request({
    ":path": WORK,
    ":method": "POST",
    "content-type": "application/grpc",
  });
  stream.on("error", () => undefined).resume();
  const trailers = once(stream, "trailers");
  stream.write(framed(toBinary(WorkRequestSchema, create(WorkRequestSchema, { hello: newHello() }))));
  const run = "01a22cdf-e3a4-768f-8d67-53e1ab0c5f3d";
  for (let frame = 0; frame < 3; frame++) {
    const answers = Array.from({ length: LIMITS.messageItems }, (_, at) => ({
      claimId: "c",
      callId: `${run}/${frame * LIMITS.messageItems + at + 1}`,
      outcome: { case: "resultJson", value: "1" } as const,
    }));
    stream.write(framed(toBinary(WorkRequestSchema, create(WorkRequestSchema, { answers }))));
  }
  const [{ "grpc-status": status, "grpc-message": message }] = (await within("the end", trailers)) as [
    http2.IncomingHttpHeaders,
  ];
  expect(`${String(status)} ${decodeURIComponent(String(message))}`).toMatch(
    /^8 \d+ items of this stream wait/,
  );
});

describe("a server", () => {
  async function serve({
    seen = () => undefined,
    routes,
  }: {
    readonly seen?: (stream: http2.ServerHttp2Stream) => void;
    readonly routes: (router: ConnectRouter) => void;
  }): Promise<string> {
    const handle = requestHandler({ gate: { admit: async () => null }, routes });
    const handler: typeof handle = (request, response) => {
      if ("stream" in response) seen(response.stream);
      handle(request, response);
    };
    const listener = await listen({ host: "127.0.0.1", port: 0, handler });
    onTestFinished(() => listener.close({ graceMs: 0 }));
    return listener.url;
  }

  test("keeps nothing of fields that it does not know", async () => {
    const unknown: unknown[] = [];
    const url = await serve({
      routes: (router) =>
        router.service(Health, {
          check: (request) => {
            unknown.push(request.$unknown);
            return { status: Status.SERVING };
          },
        }),
    });
    const body = Buffer.from("7801", "hex");
    const headers = ofType("application/proto");
    expect((await askHttp2(url, { path: `/${Health.typeName}/Check`, headers, body })).status).toBe(200);
    expect(unknown).toEqual([undefined]);
  });

  test.each([
    ["that expects to be told to go on", { expect: "100-continue", ":path": "/" }],
    ["that expects something else", { expect: "a miracle", ":path": "/" }],
    ["for a tunnel", { ":method": "CONNECT", ":authority": "127.0.0.1:1" }],
  ])("outlives a request %s, of a client that goes away at once", async (_, headers) => {
    const url = await serve({
      routes: (router) => router.service(Health, { check: () => ({ status: Status.SERVING }) }),
    });
    const { NGHTTP2_CANCEL, NGHTTP2_PROTOCOL_ERROR } = http2.constants;
    for (const code of [NGHTTP2_CANCEL, NGHTTP2_PROTOCOL_ERROR]) {
      const client = session(url);
      for (let asked = 0; asked < 20; asked++) {
        client
          .request(headers, { endStream: false })
          .on("error", () => undefined)
          .close(code);
      }
      const path = `/${Health.typeName}/Check`;
      const asking = { path, headers: ofType("application/json"), body: Buffer.from("{}") };
      expect((await askHttp2(client, asking)).status).toBe(200);
    }
  });

  test("lets go of a request that has failed, though some of it is unread", async () => {
    const streams: http2.ServerHttp2Stream[] = [];
    const url = await serve({
      routes: (router) => router.service(Health, { check: () => ({ status: Status.SERVING }) }),
      seen: (stream) => streams.push(stream),
    });
    const client = session(url);
    const body = Buffer.concat([framed(Buffer.from([0xff, 0xff])), framed(Buffer.alloc(MIB / 2))]);
    const path = `/${Health.typeName}/Check`;
    for (const type of ["application/grpc", "application/grpc-web+proto", "application/proto"]) {
      await askHttp2(client, { path, headers: ofType(type), body });
    }
    expect(streams).toHaveLength(3);
    await until("the streams are gone", () => streams.every(({ destroyed }) => destroyed), 5_000);
  });

  test("lets go of a stream that its client resets without an error while it is answered", async () => {
    const closed = gate();
    const listener = await listen({
      host: "127.0.0.1",
      port: 0,
      handler: (_, response) => {
        response.once("close", closed.open);
        response.writeHead(200);
        response.write(Buffer.alloc(MIB));
      },
    });
    onTestFinished(() => listener.close({ graceMs: 0 }));
    const client = http2.connect(listener.url, { settings: { initialWindowSize: 0 } });
    onTestFinished(() => client.destroy());
    const stream = client.request({ ":path": "/", ":method": "POST" }, { endStream: false });
    stream.on("error", () => undefined);
    await once(stream, "response");
    stream.write("something that nobody reads");
    stream.close(http2.constants.NGHTTP2_NO_ERROR);
    await within("the end of the stream", closed.promise, 5_000);
  });
});
