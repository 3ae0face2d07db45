import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as net from "node:net";
import { text } from "node:stream/consumers";
import { Health } from "@trunkline/proto/health";
import { describe, expect, onTestFinished, test } from "vitest";
import { listen, type Listener, type ListenerOptions } from "../../server/src/service/listener.js";
import { until, within } from "../support/until.js";
import { useNode } from "./node.js";
import { askHttp1, askHttp2, dripUntilCut, session, type Asking } from "./plain-asking.js";

const KEY = "root-key-of-the-test";
const serving = useNode({ rootKey: KEY, timeouts: { restMs: 300 } });

const MIB = 1024 * 1024;
const SETTLE = "/api/machine/sessions/run/calls/settle";
const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`x-${index}`, "1"]));
const rpc = (name: string): string => `/trunkline.v1.${name}`;

async function openListener(options: Partial<ListenerOptions>): Promise<Listener> {
  const handler: ListenerOptions["handler"] = (_request, response) => {
    response.writeHead(401);
    response.end("no");
  };
  const listener = await listen({ host: "127.0.0.1", port: 0, handler, ...options });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  return listener;
}

/** What came of writing for as long as the other side lets one. */
async function writeEndlessly(socket: net.Socket, head: string): Promise<{ sent: number; received: string }> {
  let received = "";
  let sent = 0;
  socket.on("error", () => undefined);
  socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
  const chunk = `4000\r\n${"x".repeat(0x4000)}\r\n`;
  socket.write(head);
  const more = (): void => {
    while (!socket.destroyed && socket.write(chunk)) sent += chunk.length;
    sent += chunk.length;
  };
  socket.on("drain", more);
  more();
  await within("the end of the connection", new Promise((resolve) => socket.once("close", resolve)));
  return { sent, received };
}

describe("a request that has its answer", () => {
  const head = (path: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const connect = (): net.Socket => {
    const socket = net.connect({ port: serving.node.port, host: "127.0.0.1" });
    onTestFinished(() => void socket.destroy());
    return socket;
  };

  test.each([
    ["401", rpc("CallService/OpenCalls")],
    ["404", "/nowhere"],
    ["401", SETTLE],
  ])("does not go on for ever over HTTP/1.1 (%s of %s)", async (status, path) => {
    const { sent, received } = await writeEndlessly(connect(), head(path));
    expect(received).toContain(`HTTP/1.1 ${status}`);
    // What was read, and what the two kernels hold of the rest.
    expect(sent).toBeLessThan(32 * MIB);
  });

  test.each([
    ["more than is taken", 8 * MIB, ""],
    ["not all of a connection that is not kept", MIB, "Connection: close\r\n"],
  ])("can be read over HTTP/1.1 by a client that sends first (%s)", async (_, bytes, extra) => {
    const socket = connect();
    socket.on("error", () => undefined);
    // Nothing is read yet, as by a client that is busy with sending.
    socket.pause();
    const length = `Content-Length: ${String(64 * MIB)}\r\n`;
    socket.write(`POST /nowhere HTTP/1.1\r\nHost: localhost\r\n${extra}${length}\r\n`);
    let taken = 0;
    const more = (): void => {
      if (taken >= bytes || socket.destroyed) return;
      socket.write(Buffer.alloc(0x4000), () => {
        taken += 0x4000;
        setImmediate(more);
      });
    };
    more();
    let before = -1;
    await until("nothing more is taken", () => {
      const isStill = taken === before;
      before = taken;
      return isStill;
    });
    expect(taken).toBeGreaterThanOrEqual(MIB);
    expect(socket.errored).toBeNull();
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1"))).resume();
    await within("the end of the connection", new Promise((resolve) => socket.once("close", resolve)));
    expect(received).toContain("HTTP/1.1 404");
  });

  test("does not drip for ever over HTTP/1.1", async () => {
    const socket = connect();
    socket.on("error", () => undefined);
    socket.write(head("/nowhere"));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toContain("HTTP/1.1 404");
    await dripUntilCut(socket, "1\r\nx\r\n");
  });

  test("leaves its HTTP/1.1 connection to the next one when it ends soon after", async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const ports = new Set<number | undefined>();
    for (let time = 0; time < 3; time++) {
      const request = http.request(`${serving.node.url}${rpc("CallService/OpenCalls")}`, {
        ...{ method: "POST", agent, headers: { "content-type": "application/json" } },
      });
      request.end(Buffer.alloc(MIB, " "));
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      ports.add(request.socket?.localPort);
      expect(response.statusCode).toBe(401);
      await text(response);
    }
    expect(ports.size).toBe(1);
  });

  test("can be read where the next one of its connection is answered early as well, and is the last", async () => {
    const { port } = await openListener({});
    // The server ends its half with its last answer.
    const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
    const answers = (count: number): Promise<unknown> =>
      until(`answer ${count}`, () => received.split("HTTP/1.1 401").length > count);
    const length = `Content-Length: ${String(2 * MIB)}\r\n`;
    const half = Buffer.alloc(MIB);
    const head = (more: string): string => `POST /x HTTP/1.1\r\nHost: localhost\r\n${more}${length}\r\n`;
    socket.write(head(""));
    await answers(1);
    socket.write(half);
    socket.write(Buffer.concat([half, Buffer.from(head("Connection: close\r\n")), half]));
    await answers(2);
    await new Promise((resolve) => socket.write(half, resolve));
    socket.end();
    await until("the end of the connection", () => socket.closed);
    expect(socket.errored).toBeNull();
  });

  test("says that its connection serves no other one when it announces more than is taken", async () => {
    const agent = new http.Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const connectionOf = async (bytes: number): Promise<string | undefined> => {
      const request = http.request(`${serving.node.url}/nowhere`, { method: "POST", agent });
      request.on("error", () => undefined);
      request.end(Buffer.alloc(bytes));
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      await text(response);
      return response.headers.connection;
    };
    expect(await connectionOf(4 * MIB)).toBe("keep-alive");
    expect(await connectionOf(4 * MIB + 1)).toBe("close");
  });

  test.each(["/nowhere", rpc("CallService/OpenCalls"), rpc("WorkerService/Work")])(
    "has its stream of HTTP/2 closed, and not much more of it is taken (%s)",
    async (path) => {
      const client = session(serving.node.url);
      const stream = client.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
      stream.on("error", () => undefined);
      let closed = false;
      stream.once("close", () => (closed = true));
      stream.resume();
      const chunk = Buffer.alloc(0x4000);
      let sent = 0;
      const more = (): void => {
        if (closed || stream.destroyed || stream.writableEnded) return;
        stream.write(chunk, () => {
          sent += chunk.length;
          setImmediate(more);
        });
      };
      more();
      await once(stream, "end");
      await until("the stream's end", () => stream.closed);
      expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
      // A message, a window, and what waits in between.
      expect(sent).toBeLessThan(12 * MIB);
      expect(
        (await askHttp2(client, { path: "/nowhere", headers: {}, method: "GET", body: Buffer.alloc(0) }))
          .status,
      ).toBe(404);
    },
  );
});

describe("headers", () => {
  const large = { "x-large": "x".repeat(40 * 1024) };

  test.each([
    ["too many", many],
    ["too large", large],
  ])("%s of HTTP/1.1 are answered with 431", async (_, headers) => {
    const { status } = await askHttp1(serving.node.url, {
      path: "/",
      headers,
      method: "GET",
      body: Buffer.alloc(0),
    });
    expect(status).toBe(431);
  });

  test.each([
    ["too many", many],
    ["too large", large],
  ])("%s of HTTP/2 cost their request, and not the connection", async (_, headers) => {
    const client = session(serving.node.url);
    const stream = client.request({ ":path": "/", ...headers });
    const refused = once(stream, "response").then(
      ([head]) => `status ${String((head as http2.IncomingHttpHeaders)[":status"])}`,
      (error: unknown) => String(error),
    );
    expect(await refused).toMatch(/status 431|NGHTTP2_(ENHANCE_YOUR_CALM|REFUSED_STREAM|CANCEL)/);
    expect(
      (await askHttp2(client, { path: "/nowhere", headers: {}, method: "GET", body: Buffer.alloc(0) }))
        .status,
    ).toBe(404);
  });

  test("that drip in for ever end their connection", async () => {
    const { port } = await openListener({ timeouts: { headersMs: 100 } });
    const socket = net.connect({ port, host: "127.0.0.1" });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    socket.write("GET / HTTP/1.1\r\n");
    socket.resume();
    await dripUntilCut(socket, "x: y\r\n");
  });
});

describe("an answer", () => {
  const page = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  };
  const text = { "content-type": "text/plain" };
  const key = { authorization: `Bearer ${KEY}` };
  const body = Buffer.from("{}");

  test.each<[number, string, Asking]>([
    [404, "of a path at which there is nothing", { path: "/", headers: {}, method: "GET", body }],
    [
      405,
      "of an RPC that is not posted",
      { path: rpc("RunService/GetRun"), headers: key, method: "PUT", body },
    ],
    [
      415,
      "of a type that is not known",
      { path: rpc("RunService/GetRun"), headers: { ...key, ...text }, body },
    ],
    [405, "of the settle route", { path: SETTLE, headers: key, method: "PUT", body }],
    [
      401,
      "of the settle route without a key",
      { path: SETTLE, headers: { "content-type": "application/json" }, body },
    ],
  ])("%i %s can be no page that does anything", async (status, _, asking) => {
    for (const ask of [askHttp1, askHttp2]) {
      const answer = await ask(serving.node.url, asking);
      expect(answer.status).toBe(status);
      expect(answer.headers).toMatchObject(page);
      expect(answer.headers).not.toHaveProperty("strict-transport-security");
    }
  });

  test("of a stream over HTTP/1.1 can be no page that does anything", async () => {
    const answer = await askHttp1(serving.node.url, { path: rpc("CallService/Drive"), headers: {}, body });
    expect(answer.status).toBe(505);
    expect(answer.headers).toMatchObject(page);
  });

  test.each([
    ["Connect", { "content-type": "application/json" }, Buffer.from("{}")],
    ["gRPC", { "content-type": "application/grpc" }, Buffer.alloc(5)],
    ["gRPC-Web", { "content-type": "application/grpc-web+proto" }, Buffer.alloc(5)],
  ])("over %s is taken for nothing else than it says", async (_, headers, body) => {
    for (const path of [rpc("RunService/ListRuns"), `/${Health.typeName}/Check`]) {
      const answer = await askHttp2(serving.node.url, { path, headers: { ...headers, ...key }, body });
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    }
  });
});
