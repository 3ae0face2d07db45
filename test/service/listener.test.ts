import { EventEmitter, once } from "node:events";
import { readFile } from "node:fs/promises";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import * as net from "node:net";
import { buffer, text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import type { RequestHandler } from "../../server/src/service/listener-handler.js";
import { listen, type Listener, type ListenerOptions } from "../../server/src/service/listener.js";

const cert = await readFile(new URL("../support/tls/fixture-cert.pem", import.meta.url), "utf8");
const key = await readFile(new URL("../support/tls/fixture-key.pem", import.meta.url), "utf8");

const toClose: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

/** Reads the body and says which protocol brought it, and how long it was. */
const describeRequest: RequestHandler = (request, response) => {
  let bytes = 0;
  request.on("data", (chunk: Buffer) => (bytes += chunk.length));
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/plain" });
    response.end(`HTTP/${request.httpVersion} ${String(request.url)} ${bytes} bytes`);
  });
};

async function open(options: Partial<ListenerOptions> = {}): Promise<Listener> {
  const listener = await listen({ host: "127.0.0.1", port: 0, handler: describeRequest, ...options });
  toClose.push(() => listener.close({ graceMs: 0 }));
  return listener;
}

function session(
  listener: Listener,
  options: http2.SecureClientSessionOptions = {},
): http2.ClientHttp2Session {
  const client = http2.connect(listener.url, { ca: cert, maxSessionMemory: 1000, ...options });
  client.on("error", () => {});
  toClose.push(() => client.destroy());
  return client;
}

async function getHttp2(client: http2.ClientHttp2Session, path = "/"): Promise<string> {
  return text(client.request({ ":path": path }));
}

interface Http1Answer {
  readonly status: number | undefined;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

async function getHttp1(listener: Listener, options: https.RequestOptions = {}): Promise<Http1Answer> {
  const get = listener.url.startsWith("https:") ? https.get : http.get;
  const request = get(listener.url, { ca: cert, agent: false, ...options });
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** A client without any protocol of its own. */
class RawClient {
  readonly socket: net.Socket;
  readonly closed: Promise<unknown>;
  received = "";

  constructor(listener: Listener) {
    this.socket = net.connect({ port: listener.port, host: "127.0.0.1", noDelay: true });
    this.closed = new Promise((resolve) => this.socket.once("close", resolve));
    this.socket.on("error", () => {});
    this.socket.on("data", (chunk: Buffer) => (this.received += chunk.toString("latin1")));
    toClose.push(() => this.socket.destroy());
  }

  /** Resolves when the other end, in this process, has had a turn of the event loop to read it. */
  async send(bytes: string | Buffer): Promise<void> {
    await new Promise((resolve) => this.socket.write(bytes, resolve));
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  async until(expected: string): Promise<void> {
    while (!this.received.includes(expected)) await once(this.socket, "data");
  }
}

/** Resolves after the listener's silence timeout: the event by which these tests let time go by. */
async function silencePasses(listener: Listener): Promise<void> {
  await new RawClient(listener).closed;
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header.writeUInt8(type, 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const SETTINGS = frame(4, 0, 0, Buffer.alloc(0));
const AUTHORITY = Buffer.from("localhost");

/** One whole HTTP/2 connection's worth of bytes: preface, settings, a POST of `/` with a body in pieces of 10,000. */
function http2Post(pieces: number): Buffer {
  const fields = Buffer.concat([Buffer.from([0x83, 0x86, 0x84, 0x41, AUTHORITY.length]), AUTHORITY]);
  const body = Array.from({ length: pieces }, (_, piece) =>
    frame(0, piece === pieces - 1 ? 1 : 0, 1, Buffer.alloc(10_000, 0x61)),
  );
  return Buffer.concat([PREFACE, SETTINGS, frame(1, 4, 1, fields), ...body]);
}

const HTTP1_GET = "GET /raw HTTP/1.1\r\nHost: localhost\r\n\r\n";

describe("one port, two protocols", () => {
  test("a plain port answers HTTP/2 and HTTP/1.1", async () => {
    const listener = await open();
    expect(listener.url).toBe(`http://127.0.0.1:${listener.port}`);
    expect(await getHttp2(session(listener), "/two")).toBe("HTTP/2.0 /two 0 bytes");
    expect((await getHttp1(listener, { path: "/one" })).body).toBe("HTTP/1.1 /one 0 bytes");
  });

  test("a TLS port answers both, as ALPN chooses", async () => {
    const listener = await open({ tls: { cert, key } });
    expect(listener.url).toBe(`https://127.0.0.1:${listener.port}`);
    const client = session(listener);
    expect(await getHttp2(client, "/two")).toBe("HTTP/2.0 /two 0 bytes");
    expect(client.alpnProtocol).toBe("h2");
    expect((await getHttp1(listener, { path: "/one" })).body).toBe("HTTP/1.1 /one 0 bytes");
  });

  test("an IPv6 host stands in brackets in the URL and can be reached by it", async ({ skip }) => {
    const listener = await open({ host: "::1" }).catch(() => skip("this machine has no IPv6"));
    expect(listener.url).toBe(`http://[::1]:${listener.port}`);
    expect((await getHttp1(listener)).status).toBe(200);
  });

  test.each([1, 2, 3, 23])("HTTP/2 is recognized when its first %i bytes come alone", async (count) => {
    const client = new RawClient(await open());
    const bytes = http2Post(1);
    await client.send(bytes.subarray(0, count));
    await client.send(bytes.subarray(count));
    await client.until("HTTP/2.0 / 10000 bytes");
  });

  test.each([1, 2, 3, 20])("HTTP/1.1 is recognized when its first %i bytes come alone", async (count) => {
    const client = new RawClient(await open());
    await client.send(HTTP1_GET.slice(0, count));
    await client.send(HTTP1_GET.slice(count));
    await client.until("HTTP/1.1 /raw 0 bytes");
  });

  test("a method that begins like HTTP/2's preface is still HTTP/1.1", async () => {
    const client = new RawClient(await open());
    await client.send("P");
    await client.send("UT /put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
    await client.until("HTTP/1.1 /put 3 bytes");
  });

  test("nothing is lost when preface, request and body come in one piece", async () => {
    const client = new RawClient(await open());
    await client.send(http2Post(6));
    await client.until("HTTP/2.0 / 60000 bytes");
  });

  test("a request sent together with the end of the connection is answered", async () => {
    const handler: RequestHandler = (_request, response) => response.end("heard you");
    const client = new RawClient(await open({ handler }));
    client.socket.end("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    await client.closed;
    expect(client.received).toContain("heard you");
  });

  test("requests of one HTTP/1.1 connection follow each other", async () => {
    const listener = await open();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    toClose.push(() => agent.destroy());
    for (const path of ["/first", "/second"]) {
      expect((await getHttp1(listener, { agent, path })).body).toBe(`HTTP/1.1 ${path} 0 bytes`);
    }
    expect(listener.connections()).toBe(1);
  });
});

describe("hostile and clumsy clients", () => {
  test.each([
    ["garbage", "\u0016\u0003\u0001 hello\r\n\r\n"],
    ["a header without a name", "GET / HTTP/1.1\r\n: nobody\r\n\r\n"],
    ["no host", "GET / HTTP/1.0\r\n\r\n"],
    ["an impossible host", "GET / HTTP/1.1\r\nHost: not a host\r\n\r\n"],
  ])("%s gets a 400", async (_, bytes) => {
    const handler: RequestHandler = () => {
      expect.unreachable();
    };
    const client = new RawClient(await open({ handler }));
    await client.send(bytes);
    await client.until("400 Bad Request");
  });

  test("a preface that goes wrong ends its connection only", async () => {
    const listener = await open();
    const client = new RawClient(listener);
    await client.send("PRI * HTTP/9.9\r\n\r\nnonsense nonsense nonsense nonsense");
    await client.closed;
    expect((await getHttp1(listener)).status).toBe(200);
  });

  test("plain HTTP sent to a TLS port ends its connection only", async () => {
    const listener = await open({ tls: { cert, key } });
    const client = new RawClient(listener);
    await client.send(HTTP1_GET);
    await client.closed;
    expect((await getHttp1(listener)).status).toBe(200);
  });

  const patient = { silenceMs: 60_000, quietMs: 60_000, headersMs: 60_000, stalledMs: 60_000 };
  test.each([
    ["says nothing", "", { silenceMs: 60 }],
    ["says one byte", "P", { silenceMs: 60 }],
    ["says no more than the preface", PREFACE, { silenceMs: 60 }],
    ["falls silent in HTTP/2", Buffer.concat([PREFACE, SETTINGS]), { quietMs: 30 }],
    ["stops inside its headers", "GET / HTTP/1.1\r\nHo", { headersMs: 60 }],
    [
      "stops inside its body",
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc",
      { stalledMs: 60 },
    ],
  ])("a client that %s is cut off", async (_, bytes, timeouts) => {
    const listener = await open({ timeouts: { ...patient, ...timeouts } });
    const client = new RawClient(listener);
    if (bytes.length > 0) await client.send(bytes);
    await client.closed;
  });

  test("a client that never reads its answer is cut off", async () => {
    const signals = new EventEmitter();
    const handler: RequestHandler = (_request, response) => {
      response.end(Buffer.alloc(64 * 1024 * 1024));
      response.on("close", () => signals.emit("closed"));
    };
    const cut = once(signals, "closed");
    const client = new RawClient(await open({ handler, timeouts: { stalledMs: 60 } }));
    client.socket.pause();
    await client.send(HTTP1_GET);
    await cut;
  });

  test("a client of HTTP/2 that has nothing to say, and answers when asked, stays", async () => {
    const client = session(await open({ timeouts: { quietMs: 20 } }));
    for (let asked = 0; asked < 5; asked += 1) await once(client, "ping");
    expect(await getHttp2(client)).toBe("HTTP/2.0 / 0 bytes");
  });

  test("a client that says nothing to a TLS port is cut off", async () => {
    await silencePasses(await open({ tls: { cert, key }, timeouts: { silenceMs: 60 } }));
  });

  test.each(["HTTP/1.1", "HTTP/2"])(
    "a client of %s that ends its side while it owes a body is let go",
    async (protocol) => {
      const listener = await open();
      const client = new RawClient(listener);
      const http1Post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc";
      await client.send(protocol === "HTTP/2" ? http2Post(2).subarray(0, 200) : http1Post);
      client.socket.end();
      await client.closed;
    },
  );

  test("S06: clients that come, ask and go at once leave the server as it was", async () => {
    const faults: unknown[] = [];
    const handler: RequestHandler = (request, response) => {
      if (request.url === "/stay") {
        describeRequest(request, response);
        return;
      }
      request.resume();
      request.on("close", () => {
        response.writeHead(200, { trailer: "t" });
        response.write("too late");
        response.addTrailers({ t: "1" });
        response.end();
      });
    };
    const listener = await open({ handler, onError: (error) => faults.push(error) });
    const stages = [
      Buffer.alloc(0),
      PREFACE.subarray(0, 2),
      http2Post(1),
      http2Post(2).subarray(0, 9_000),
      HTTP1_GET,
    ];
    const clients = Array.from({ length: 200 }, async (_, index) => {
      const client = new RawClient(listener);
      const bytes = stages[index % stages.length]!;
      if (index % 3 === 0) client.socket.write(bytes);
      else await client.send(bytes);
      if (index % 2 === 0) client.socket.destroy();
      else client.socket.resetAndDestroy();
      await client.closed;
    });
    await Promise.all(clients);
    expect(await getHttp2(session(listener), "/stay")).toBe("HTTP/2.0 /stay 0 bytes");
    expect(faults).toEqual([]);
  });

  test("a handler that throws costs its request a 500 and nothing else", async () => {
    const faults: unknown[] = [];
    const fault = new TypeError("broken handler");
    const handler: RequestHandler = (request, response) => {
      if (request.url === "/broken") throw fault;
      describeRequest(request, response);
    };
    const listener = await open({ handler, onError: (error) => faults.push(error) });
    expect((await getHttp1(listener, { path: "/broken" })).status).toBe(500);
    const client = session(listener);
    expect(await getHttp2(client, "/broken")).toBe("internal error\n");
    expect(await getHttp2(client, "/")).toBe("HTTP/2.0 / 0 bytes");
    expect(faults).toEqual([fault, fault]);
  });

  test("connections above the bound are refused, and taken again when others have gone", async () => {
    const listener = await open({ maxConnections: 1 });
    const first = new RawClient(listener);
    await first.send("G");
    expect(listener.connections()).toBe(1);
    await new RawClient(listener).closed;
    first.socket.destroy();
    while (listener.connections() > 0) await new Promise((resolve) => setImmediate(resolve));
    expect((await getHttp1(listener)).status).toBe(200);
  });
});

describe("load and length", () => {
  test("S07: a burst of 3,000 requests on one connection is answered, not told to calm down", async () => {
    const waiting: (() => void)[] = [];
    const handler: RequestHandler = (request, response) => {
      waiting.push(() => describeRequest(request, response));
      if (waiting.length === 3_000) for (const answer of waiting) answer();
    };
    const client = session(await open({ handler }), { peerMaxConcurrentStreams: 10_000 });
    const codes: number[] = [];
    client.on("goaway", (code) => codes.push(code));
    const answers = await Promise.all(
      Array.from({ length: 3_000 }, (_, index) => getHttp2(client, `/${index}`)),
    );
    expect(answers.at(-1)).toBe("HTTP/2.0 /2999 0 bytes");
    expect(new Set(answers).size).toBe(3_000);
    expect(codes).toEqual([]);
  });

  test("S07: answers that nobody reads yet do not get new requests on their connection refused", async () => {
    const body = Buffer.alloc(64 * 1024);
    const client = session(await open({ handler: (_request, response) => response.end(body) }));
    const answers = Array.from({ length: 400 }, () => client.request({ ":path": "/unread" }));
    await Promise.all(answers.map((answer) => once(answer, "response")));
    const last = client.request({ ":path": "/last" });
    const [headers] = await once(last, "response");
    expect(headers[":status"]).toBe(200);
    for (const answer of [...answers, last]) expect((await buffer(answer)).length).toBe(body.length);
  });

  test("S07: 500 requests canceled at once do not cost the connection", async () => {
    const client = session(await open());
    const codes: number[] = [];
    client.on("goaway", (code) => codes.push(code));
    const canceled = Array.from({ length: 500 }, async () => {
      const stream = client.request({ ":path": "/", ":method": "POST" });
      stream.on("error", () => {});
      stream.close(http2.constants.NGHTTP2_CANCEL);
      await once(stream, "close");
    });
    await Promise.all(canceled);
    expect(await getHttp2(client)).toBe("HTTP/2.0 / 0 bytes");
    expect(codes).toEqual([]);
  });

  test("a large upload is not held up by small windows", async () => {
    const client = session(await open());
    await once(client, "remoteSettings");
    expect(client.remoteSettings.initialWindowSize).toBe(1024 * 1024);
    expect(client.remoteSettings.maxConcurrentStreams).toBe(10_000);
    const stream = client.request({ ":path": "/", ":method": "POST" });
    stream.end(Buffer.alloc(20 * 1024 * 1024));
    expect(await text(stream)).toBe(`HTTP/2.0 / ${20 * 1024 * 1024} bytes`);
  });

  test("S24: a chunked HTTP/1.1 request outlasts every timeout as long as pieces come", async () => {
    const listener = await open({
      timeouts: { silenceMs: 80, headersMs: 50, stalledMs: 250, keepAliveMs: 50 },
    });
    const request = http.request(listener.url, { method: "POST", agent: false });
    const response = once(request, "response") as Promise<[http.IncomingMessage]>;
    for (let piece = 0; piece < 6; piece += 1) {
      request.write("0123456789");
      await silencePasses(listener);
    }
    request.end();
    expect(await text((await response)[0])).toBe("HTTP/1.1 / 60 bytes");
  });

  test("a quiet HTTP/1.1 answer outlasts every timeout", async () => {
    const held: (() => void)[] = [];
    const handler: RequestHandler = (_request, response) => {
      response.writeHead(200);
      response.write("first ");
      held.push(() => response.end("last"));
    };
    const quick = { silenceMs: 120, headersMs: 40, stalledMs: 40, keepAliveMs: 40 };
    const listener = await open({ handler, timeouts: quick });
    const answer = getHttp1(listener);
    await silencePasses(listener);
    held[0]!();
    expect((await answer).body).toBe("first last");
  });
});

describe("closing", () => {
  /** A handler that answers when it is let. */
  function heldHandler(): { handler: RequestHandler; release: () => void; asked: Promise<unknown> } {
    const signals = new EventEmitter();
    const asked = once(signals, "asked");
    const released = once(signals, "released");
    const handler: RequestHandler = (request, response) => {
      signals.emit("asked");
      void released.then(() => describeRequest(request, response));
    };
    return { handler, release: () => signals.emit("released"), asked };
  }

  test("a running HTTP/2 request ends, its client hears GOAWAY, and new connections are refused", async () => {
    const { handler, release, asked } = heldHandler();
    const listener = await open({ handler });
    const client = session(listener);
    const goaway = once(client, "goaway");
    const answer = getHttp2(client, "/running");
    await asked;
    const closed = listener.close({ graceMs: 20_000 });
    expect((await goaway)[0]).toBe(http2.constants.NGHTTP2_NO_ERROR);
    expect(() => client.request({ ":path": "/late" })).toThrow();
    await expect(getHttp1(listener)).rejects.toThrow("ECONNREFUSED");
    release();
    expect(await answer).toBe("HTTP/2.0 /running 0 bytes");
    await closed;
    expect(listener.connections()).toBe(0);
  });

  test("a running HTTP/1.1 request ends and is told to close its connection", async () => {
    const { handler, release, asked } = heldHandler();
    const listener = await open({ handler });
    const agent = new http.Agent({ keepAlive: true });
    toClose.push(() => agent.destroy());
    const answer = getHttp1(listener, { agent });
    await asked;
    const closed = listener.close({ graceMs: 20_000 });
    release();
    expect((await answer).headers.connection).toBe("close");
    await closed;
  });

  test.each([{ tls: undefined }, { tls: { cert, key } }])(
    "connections that wait for nothing do not hold it up (TLS: $tls)",
    async ({ tls }) => {
      const timeouts = { silenceMs: 60_000 };
      const listener = await open(tls === undefined ? { timeouts } : { timeouts, tls });
      const agent =
        tls === undefined ? new http.Agent({ keepAlive: true }) : new https.Agent({ keepAlive: true });
      toClose.push(() => agent.destroy());
      await getHttp1(listener, { agent });
      await getHttp2(session(listener));
      if (tls === undefined) {
        const silent = new RawClient(listener);
        await silent.send("P");
        await new RawClient(listener).send("GET / HT");
      }
      expect(listener.connections()).toBe(tls === undefined ? 4 : 2);
      await listener.close({ graceMs: 2 ** 40 });
    },
  );

  test.each([{ tls: undefined }, { tls: { cert, key } }])(
    "what still runs after the grace is cut (TLS: $tls)",
    async ({ tls }) => {
      const { handler, asked } = heldHandler();
      const listener = await open(tls === undefined ? { handler } : { handler, tls });
      const client = session(listener);
      const stream = client.request({ ":path": "/", ":method": "POST" });
      stream.on("error", () => {});
      const cut = new Promise((resolve) => stream.once("close", resolve));
      const http1 = getHttp1(listener);
      await asked;
      await Promise.all([listener.close({ graceMs: 30 }), cut, expect(http1).rejects.toThrow()]);
      expect(listener.connections()).toBe(0);
    },
  );

  test("a second close can cut the grace of the first short", async () => {
    const { handler, asked } = heldHandler();
    const listener = await open({ handler });
    const stream = session(listener).request({ ":path": "/" });
    stream.on("error", () => {});
    await asked;
    const patient = listener.close({ graceMs: 3_600_000 });
    await listener.close({ graceMs: 0 });
    await patient;
  });
});

describe("refusing to start", () => {
  test("a port in use is refused with host, port and what to do", async () => {
    const { port } = await open();
    const refusal = await listen({ host: "127.0.0.1", port, handler: describeRequest }).catch(
      (e: unknown) => e,
    );
    expect(refusal).toBeInstanceOf(TrunklineError);
    expect(refusal).toMatchObject({
      reason: "UNAVAILABLE",
      metadata: { host: "127.0.0.1", port: String(port) },
    });
    expect((refusal as Error).message).toBe(
      `cannot listen on 127.0.0.1:${port}: the port is in use; stop the process that holds it or choose another port`,
    );
  });

  test("a port number that does not exist is refused by its value and range", async () => {
    const refusal = listen({ host: "127.0.0.1", port: 65_536, handler: describeRequest });
    await expect(refusal).rejects.toMatchObject({
      reason: "INVALID_FIELD",
      message: "port: 65536 is not a port; allowed: 0 to 65535",
    });
  });

  test("a host that is not this machine's is refused by its name", async () => {
    const refusal = listen({ host: "192.0.2.1", port: 0, handler: describeRequest });
    await expect(refusal).rejects.toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining("cannot listen on 192.0.2.1:0: this machine has no such host"),
    });
  });

  test("a certificate that cannot be read is refused before the port is taken", async () => {
    const refusal = listen({
      host: "127.0.0.1",
      port: 0,
      handler: describeRequest,
      tls: { cert: "none", key },
    });
    await expect(refusal).rejects.toMatchObject({ reason: "INVALID_FIELD", metadata: { field: "tls" } });
  });
});
