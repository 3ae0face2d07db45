import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../server/src/log.js";
import { startServer, type Server, type ServerOptions } from "../../server/src/server.js";
import { useDatabase } from "../support/database.js";
import { askHttp1, askHttp2, type Answer } from "./plain-asking.js";

const KEY = "root-key-of-the-test";
const APP = "https://app.example";
const OTHER = "https://evil.example";
const LIST = "/trunkline.v1.RunService/ListRuns";
const CHECK = `/${Health.typeName}/Check`;
const WATCH = `/${Health.typeName}/Watch`;
const SETTLE = "/api/machine/sessions/run/calls/settle";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

const database = useDatabase();
let named: Server;
let unnamed: Server;
let open: Server;

const start = (options: Partial<ServerOptions>): Promise<Server> =>
  startServer({ databaseUrl: database.url, port: 0, rootKey: KEY, log: createLog("silent"), ...options });

beforeAll(async () => {
  named = await start({ corsOrigins: [APP, "http://localhost:5173"] });
  unnamed = await start({});
  open = await start({ rootKey: null, insecure: true });
});
afterAll(() => Promise.all([named, unnamed, open].map((server) => server.stop({ graceMs: 0 }))));

const json = { "content-type": "application/json" };
const key = { authorization: `Bearer ${KEY}` };
const body = Buffer.from("{}");

/** The answer's headers about origins. */
function leaves({ headers }: Answer): string[] {
  return Object.keys(headers).filter((name) => name.startsWith("access-control-"));
}

describe.each([
  ["HTTP/1.1", askHttp1],
  ["HTTP/2", askHttp2],
])("over %s", (_, ask) => {
  const preflight = (server: Server, path: string, origin: string): Promise<Answer> =>
    ask(server.url, {
      path,
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,connect-protocol-version,content-type",
      },
      body: Buffer.alloc(0),
    });

  test.each([LIST, CHECK, REFLECTION, SETTLE])("a page of a named origin may ask for %s", async (path) => {
    const { status, headers } = await preflight(named, path, APP);
    expect(status).toBe(204);
    expect(headers).toMatchObject({
      "access-control-allow-origin": APP,
      "access-control-max-age": "7200",
      vary: "Origin",
    });
    expect(headers["access-control-allow-methods"]).toMatch(/\bPOST\b/);
    const allowed = String(headers["access-control-allow-headers"]).toLowerCase().split(", ");
    expect(allowed).toEqual(
      expect.arrayContaining([
        ...["authorization", "content-type", "connect-protocol-version", "connect-timeout-ms"],
        ...["x-grpc-web", "x-user-agent", "grpc-timeout"],
      ]),
    );
    expect(headers).not.toHaveProperty("access-control-allow-credentials");
  });

  test.each([
    ["another", OTHER],
    ["one that begins like it", `${APP}.evil.example`],
    ["one of another port", `${APP}:8443`],
    ["one without TLS", "http://app.example"],
    ["none that has a name", "null"],
  ])("a page of %s may not", async (_, origin) => {
    const refused = await preflight(named, LIST, origin);
    expect(refused).toMatchObject({ status: 403, headers: { vary: "Origin" } });
    expect(leaves(refused)).toEqual([]);
    const answer = await ask(named.url, { path: LIST, headers: { ...json, ...key, origin }, body });
    expect(answer).toMatchObject({ status: 200, headers: { vary: "Origin" } });
    expect(leaves(answer)).toEqual([]);
  });

  test("a page of a named origin reads its answers, refusals too", async () => {
    for (const [path, status, headers] of [
      [LIST, 200, { ...json, ...key }],
      [LIST, 401, json],
      [CHECK, 200, json],
      [SETTLE, 401, json],
      ["/nowhere", 404, json],
    ] as const) {
      const answer = await ask(named.url, { path, headers: { ...headers, origin: APP }, body });
      expect(answer).toMatchObject({
        status,
        headers: { "access-control-allow-origin": APP, vary: "Origin" },
      });
      const exposed = String(answer.headers["access-control-expose-headers"]).toLowerCase().split(", ");
      expect(exposed).toEqual(
        expect.arrayContaining(["grpc-status", "grpc-message", "grpc-status-details-bin", "retry-after"]),
      );
    }
  });

  test("where no origin is named, nothing is said of any", async () => {
    expect(leaves(await preflight(unnamed, LIST, APP))).toEqual([]);
    const answer = await ask(unnamed.url, { path: LIST, headers: { ...json, ...key, origin: APP }, body });
    expect(leaves(answer)).toEqual([]);
    expect(answer.headers).not.toHaveProperty("vary");
  });

  test("a server without keys refuses pages that are not of this machine, whatever they ask", async () => {
    for (const [origin, status] of [
      ["http://rebound.example:7788", 403],
      ["null", 403],
      ["http://localhost.evil.example", 403],
      ["http://localhost:5173", 200],
      ["http://127.0.0.1:3000", 200],
    ] as const) {
      const answer = await ask(open.url, { path: LIST, headers: { ...json, origin }, body });
      expect(answer.status, origin).toBe(status);
      expect(leaves(answer)).toEqual([]);
    }
  });
});

describe("clients of browsers", () => {
  const seen: Headers[] = [];
  const asPage: Interceptor = (next) => async (request) => {
    request.header.set("origin", APP);
    request.header.set("authorization", `Bearer ${KEY}`);
    const response = await next(request);
    seen.push(response.header);
    return response;
  };

  test.each([
    ["Connect", createConnectTransport, "1.1"],
    ["Connect", createConnectTransport, "2"],
    ["gRPC-Web", createGrpcWebTransport, "1.1"],
    ["gRPC-Web", createGrpcWebTransport, "2"],
  ] as const)("get single answers and streams by %s over HTTP/%s", async (_, makeTransport, httpVersion) => {
    seen.length = 0;
    const transport = makeTransport({ baseUrl: named.url, httpVersion, interceptors: [asPage] });
    await createClient(RunService, transport).listRuns({});
    const done = new AbortController();
    for await (const { status } of createClient(Health, transport).watch({}, { signal: done.signal })) {
      expect(status).toBe(1);
      break;
    }
    done.abort();
    expect(seen.map((headers) => headers.get("access-control-allow-origin"))).toEqual([APP, APP]);
  });

  test("are streamed to as well when they come by hand", async () => {
    // A frame of Connect, and what a browser may read of it.
    const head = await fetch(`${named.url}${WATCH}`, {
      method: "POST",
      headers: { origin: APP, "content-type": "application/connect+json" },
      body: Buffer.concat([Buffer.from([0, 0, 0, 0, 2]), body]),
    });
    expect(head.headers.get("access-control-allow-origin")).toBe(APP);
    await head.body?.cancel();
  });
});
