import { once } from "node:events";
import type * as http2 from "node:http2";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { describe, expect, onTestFinished, test } from "vitest";
import { AnonymousLoad, type AnonymousBounds } from "../../server/src/service/anonymous-load.js";
import { admissionKey } from "../../server/src/service/auth.js";
import { toConnectError } from "../../server/src/service/error-map.js";
import { listen } from "../../server/src/service/listener.js";
import { requestHandler } from "../../server/src/service/request-handler.js";
import { gate } from "../client/support/claim.js";
import { useNode } from "./node.js";
import { askHttp1, askHttp2, dripUntilCut, session, type Answer, type Asking } from "./plain-asking.js";

const KEY = "root-key-of-the-test";
const serving = useNode({ rootKey: KEY });

/** How one kind of request comes in, and how its answer says that there was no key. */
interface Door {
  readonly ask: (url: string, asking: Asking) => Promise<Answer>;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly refused: (answer: Answer) => void;
}

const byStatus = ({ status }: Answer): void => expect(status).toBe(401);
const byTrailer = ({ headers }: Answer): void => expect(headers["grpc-status"]).toBe("16");
const inBody = ({ body }: Answer): void =>
  expect(body.toString("latin1")).toMatch(/unauthenticated|grpc-status: 16/);

const OPEN = "/trunkline.v1.CallService/OpenCalls";
const DRIVE = "/trunkline.v1.CallService/Drive";
const WORK = "/trunkline.v1.WorkerService/Work";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

const json = { "content-type": "application/json", "content-encoding": "gzip" };
const proto = { "content-type": "application/proto", "content-encoding": "gzip" };
const grpc = { "content-type": "application/grpc", "grpc-encoding": "gzip", te: "trailers" };
const web = { "content-type": "application/grpc-web+proto", "grpc-encoding": "gzip" };
const connectStream = { "content-type": "application/connect+proto", "connect-content-encoding": "gzip" };

const DOORS: Readonly<Record<string, Door>> = {
  "Connect with JSON": { ask: askHttp1, path: OPEN, headers: json, refused: byStatus },
  "Connect in binary, over HTTP/2": { ask: askHttp2, path: OPEN, headers: proto, refused: byStatus },
  gRPC: { ask: askHttp2, path: OPEN, headers: grpc, refused: byTrailer },
  "gRPC-Web": { ask: askHttp1, path: OPEN, headers: web, refused: inBody },
  "a worker's stream": { ask: askHttp2, path: WORK, headers: grpc, refused: byTrailer },
  "a harness's stream over Connect": { ask: askHttp2, path: DRIVE, headers: connectStream, refused: inBody },
  "the reflection endpoint": { ask: askHttp2, path: REFLECTION, headers: grpc, refused: byTrailer },
};

const MIB = 1024 * 1024;
/** A gibibyte as a mebibyte: gzip allows one after the other. */
const BOMB = Buffer.concat(new Array<Buffer>(1024).fill(gzipSync(Buffer.alloc(MIB))));

function envelope(compressed: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(1, 0);
  head.writeUInt32BE(compressed.length, 1);
  return Buffer.concat([head, compressed]);
}

describe.each(Object.entries(DOORS))("%s", (_, { ask, path, headers, refused }) => {
  const enveloped = !("content-encoding" in headers);

  test("refuses who has no key before anything of the body is read (S13)", async () => {
    const length = enveloped ? {} : { "content-length": String(BOMB.length) };
    refused(await ask(serving.node.url, { path, headers: { ...headers, ...length } }));
    refused(await ask(serving.node.url, { path, headers, body: enveloped ? envelope(BOMB) : BOMB }));
  });

  test("stops at its limit when a small message grows large (S13)", async () => {
    const before = process.memoryUsage().rss;
    const body = enveloped ? envelope(BOMB) : BOMB;
    const bombs = Array.from({ length: 4 }, () =>
      ask(serving.node.url, { path, headers: { ...headers, authorization: `Bearer ${KEY}` }, body }),
    );
    for (const answer of await Promise.all(bombs)) {
      const said = `${String(answer.headers["grpc-status"])} ${answer.body.toString("latin1")}`;
      expect(said).toMatch(/^8 |resource_exhausted|grpc-status: 8/);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * MIB);
  });
});

describe("whoever shows no credential where none is asked for", () => {
  const QUICK = { params: { [constants.BROTLI_PARAM_QUALITY]: 0 } };

  test("gets no further with a bomb than to the limit (S13)", async () => {
    const path = "/trunkline.v1.TaskService/GetTask";
    for (const [encoding, body] of [
      ["gzip", BOMB],
      ["br", brotliCompressSync(Buffer.alloc(64 * MIB), QUICK)],
    ] as const) {
      const headers = { "content-type": "application/proto", "content-encoding": encoding };
      const { status, body: said } = await askHttp1(serving.node.url, { path, headers, body });
      expect(status).toBe(429);
      expect(said.toString()).toContain("larger than configured readMaxBytes 4194304 after decompression");
    }
  });

  const CHECK = `/${Health.typeName}/Check`;
  const check = { "content-type": "application/json" };

  /** A health service that answers when it is let. */
  async function open(bounds: AnonymousBounds) {
    const go = gate();
    const listener = await listen({
      host: "127.0.0.1",
      port: 0,
      handler: requestHandler({
        gate: { admit: async () => null },
        anonymous: new AnonymousLoad(bounds),
        interceptors: [
          (next) => (request) => {
            const admission = request.contextValues.get(admissionKey);
            if (admission instanceof Error) throw toConnectError(admission);
            return next(request);
          },
        ],
        routes: (router) =>
          router.service(Health, {
            check: async () => {
              await go.promise;
              return { status: Status.SERVING };
            },
          }),
      }),
    });
    onTestFinished(() => listener.close({ graceMs: 0 }));
    return { client: session(listener.url), go };
  }

  test("has a bound on requests at a time, and is told to come back", async () => {
    const { client, go } = await open({ requests: 2 });
    const ask = () => askHttp2(client, { path: CHECK, headers: check, body: Buffer.from("{}") });
    const first = [ask(), ask()];
    const { status, body } = await ask();
    expect(status).toBe(429);
    expect(body.toString()).toContain("this node has 2 requests of Check without a credential");
    go.open();
    for (const answer of first) expect((await answer).status).toBe(200);
    expect((await ask()).status).toBe(200);
  });

  test("has a bound on what is held of bodies that are not complete", async () => {
    const { client, go } = await open({ bodyBytes: 1000 });
    go.open();
    const halves = Array.from({ length: 3 }, () => {
      const stream = client.request({ ":method": "POST", ":path": CHECK, ...check });
      stream.on("error", () => undefined);
      stream.write(" ".repeat(400));
      return stream;
    });
    const [head] = (await Promise.race(halves.map((half) => once(half, "response")))) as [
      http2.IncomingHttpHeaders,
    ];
    expect(head[":status"]).toBe(429);
    expect((await askHttp2(client, { path: CHECK, headers: check, body: Buffer.from("{}") })).status).toBe(
      200,
    );
  });

  test("is cut when a body takes too long, however steadily it drips", async () => {
    const { client } = await open({ bodyMs: 100 });
    const stream = client.request({ ":method": "POST", ":path": CHECK, ...check });
    stream.on("error", () => undefined);
    stream.resume();
    await dripUntilCut(stream, " ");
  });
});
