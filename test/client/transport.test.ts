import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import {
  Trunkline,
  type TrunklineOptions,
  type WorkerOptions,
  type WorkerStatus,
} from "../../client/src/index.js";
import type { Patience } from "../../client/src/route.js";
import { Endpoint } from "../../client/src/transport.js";
import { Worker } from "../../client/src/worker.js";
import { Http1Proxy } from "../support/http1-proxy.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";
import { gate } from "./support/claim.js";
import { PickyNetwork } from "./support/picky-network.js";
import { useBackend } from "./support/server.js";

const backend = useBackend();

const fixture = (name: string): string =>
  readFileSync(new URL(`../support/tls/${name}`, import.meta.url), "utf8");

let warnings: string[] = [];
const cleanups: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  warnings = [];
});

function clientAt(url: string, options: Omit<TrunklineOptions, "url"> = {}): Trunkline {
  const client = new Trunkline({ url, onWarning: (message) => warnings.push(message), ...options });
  cleanups.push(() => client.close());
  return client;
}

/** A worker with a patience that suits a test. */
function workerAt(url: string, patience: Patience, options: WorkerOptions): Worker {
  const warn = (message: string) => void warnings.push(message);
  const endpoint = new Endpoint({ url }, warn, patience);
  const worker = new Worker(endpoint, options, warn);
  cleanups.push(() => worker.stop().finally(() => endpoint.route.close()));
  return worker;
}

const proxied = async (tls?: { readonly cert: string; readonly key: string }): Promise<Http1Proxy> => {
  const proxy = await Http1Proxy.start(backend().url, tls);
  cleanups.push(() => proxy[Symbol.asyncDispose]());
  return proxy;
};

const picky = async (): Promise<PickyNetwork> => {
  const network = await PickyNetwork.start(backend().url);
  cleanups.push(() => network[Symbol.asyncDispose]());
  return network;
};

describe("behind a proxy that knows HTTP/1.1 alone", () => {
  test("a worker and a harness find their way by themselves, with one line each that says so (S04)", async () => {
    const proxy = await proxied();
    const harness = clientAt(proxy.url);
    const other = clientAt(proxy.url);
    const worker = other.worker({ tools: { double: (input) => Number(input) * 2 } });
    await until("the worker is connected", () => worker.status === "connected");
    const run = await harness.runs.create();
    expect(await run.call("double", 21)).toBe(42);
    const once = { policy: { mode: "at_most_once" } } as const;
    expect(await Promise.all([1, 2, 3].map((input) => run.call("double", input, once)))).toEqual([2, 4, 6]);
    expect(worker.status).toBe("connected");
    expect(warnings).toHaveLength(2);
    for (const warning of warnings) {
      expect(warning).toContain(`no stream passes to ${proxy.url}, though single requests do`);
    }
    await worker.stop();
    expect(proxy.methods).not.toContain("Work");
  });

  test("they find it also where that proxy speaks TLS, with the certificate that they were given", async () => {
    const cert = fixture("fixture-cert.pem");
    const proxy = await proxied({ cert, key: fixture("fixture-key.pem") });
    const client = clientAt(proxy.url, { tls: { ca: cert } });
    const worker = client.worker({ tools: { double: (input) => Number(input) * 2 } });
    await until("the worker is connected", () => worker.status === "connected");
    expect(await (await client.runs.create()).call("double", 4)).toBe(8);
    expect(warnings).toEqual([expect.stringContaining(`no stream passes to ${proxy.url}`)]);
  });

  test("who wants streams alone is told that there is a proxy that does not speak HTTP/2", async () => {
    const proxy = await proxied();
    const client = clientAt(proxy.url, { transport: "stream", retryFor: "200ms" });
    await expect(client.runs.create()).rejects.toThrow(/does every proxy before it speak HTTP\/2/);
  });
});

describe("where streams do not pass", () => {
  const PATIENCE = { welcomeMs: 200, retryMs: 700 };

  test.each(["is cut", "is swallowed"] as const)(
    "because HTTP/2 %s, a worker works by requests, and on a stream as soon as one passes; no call is lost or run twice",
    async (fate) => {
      const network = await picky();
      network.http2 = fate;
      const run = await clientAt(backend().url).runs.create();
      const starts: string[] = [];
      const finish = gate();
      const worker = workerAt(network.url, PATIENCE, {
        tools: {
          quick: (input) => input,
          slow: async (_, ctx) => {
            starts.push(ctx.idempotencyKey);
            await finish.promise;
            return "done";
          },
        },
        pollWait: "2s",
      });
      const slow = run.call("slow", null, { policy: { mode: "at_most_once" } });
      await until("the slow one has started", () => starts.length === 1);
      expect(await run.call("quick", 1)).toBe(1);
      expect(warnings.filter((each) => each.includes("no stream passes"))).toHaveLength(1);
      // It tries now and then, and calls go on meanwhile.
      const { tries } = network;
      await until("a stream was tried again", () => network.tries > tries);
      expect(await run.call("quick", 2)).toBe(2);
      network.http2 = "passes";
      await until("streams pass", () => warnings.some((each) => each.includes("streams pass to")));
      expect(await run.call("quick", 3)).toBe(3);
      finish.open();
      expect(await slow).toBe("done");
      expect(starts).toHaveLength(1);
      expect(worker.status).toBe("connected");
    },
  );

  test("a server that is merely away does not make a client give up streams", async () => {
    const network = await picky();
    network.http2 = "passes";
    const client = clientAt(network.url);
    const worker = client.worker({ tools: { echo: (input) => input }, onError: () => undefined });
    const run = await client.runs.create();
    expect(await run.call("echo", 1)).toBe(1);
    const { tries } = network;
    await backend().restart(() =>
      until("streams were tried in vain", () => network.tries > tries + 3).then(() => undefined),
    );
    expect(await run.call("echo", 2)).toBe(2);
    expect(worker.status).toBe("connected");
    expect(warnings.filter((each) => /streams? pass/.test(each))).toEqual([]);
  });
});

describe("when a response gets lost", () => {
  const work = (proxy: Http1Proxy, tools: WorkerOptions["tools"]) => {
    const errors: unknown[] = [];
    const client = clientAt(proxy.url, { transport: "poll" });
    const worker = client.worker({ tools, onError: (error) => errors.push(error), pollWait: "5s" });
    return { worker, errors };
  };
  const once = { policy: { mode: "at_most_once" } } as const;

  test("with claims, they are offered again, and run once (I3)", async () => {
    const proxy = await proxied();
    const run = await clientAt(backend().url).runs.create();
    let starts = 0;
    const { worker, errors } = work(proxy, { pay: () => ++starts });
    await until("it is connected", () => worker.status === "connected");
    const lost = proxy.lose("ClaimCalls");
    const call = await run.open("pay", null, once);
    await lost;
    expect(await call.outcome()).toMatchObject({ result: 1, attempt: 2 });
    expect(await call.status()).toMatchObject({ spent: 1 });
    expect(errors).toEqual([]);
  });

  test.each(["Heartbeat", "AnswerCalls"])(
    "of %s, it is sent again, and the handler has run once (B15)",
    async (method) => {
      const proxy = await proxied();
      const run = await clientAt(backend().url).runs.create();
      let starts = 0;
      const { worker, errors } = work(proxy, { pay: () => ++starts });
      await until("it is connected", () => worker.status === "connected");
      const lost = proxy.lose(method);
      const call = await run.open("pay", null, once);
      await lost;
      expect(await call.outcome()).toMatchObject({ result: 1, attempt: 1 });
      expect(starts).toBe(1);
      await worker.stop();
      expect(errors).toEqual([]);
    },
  );

  test("of DeferCall, the deferral is sent again, and its token is good (B03)", async () => {
    const proxy = await proxied();
    const client = clientAt(backend().url);
    const run = await client.runs.create();
    const token = gate<string>();
    const { worker, errors } = work(proxy, {
      ask: async (_, ctx) => token.open((await ctx.defer()).token),
    });
    await until("it is connected", () => worker.status === "connected");
    const lost = proxy.lose("DeferCall");
    const call = await run.open("ask");
    await lost;
    await client.tasks.complete(await token.promise, "yes");
    expect(await call.outcome()).toMatchObject({ result: "yes", attempt: 1 });
    expect(errors).toEqual([]);
  });

  test("of OpenCalls or WaitCalls, the call is opened once, and its outcome comes", async () => {
    const proxy = await proxied();
    let starts = 0;
    clientAt(backend().url).worker({ tools: { count: () => ++starts } });
    const client = clientAt(proxy.url, { transport: "poll" });
    const run = await client.runs.create();
    const losses = [proxy.lose("OpenCalls"), proxy.lose("WaitCalls")];
    expect(await run.call("count")).toBe(1);
    await Promise.all(losses);
    expect(starts).toBe(1);
  });
});

describe("a worker by requests", () => {
  test("hears within a heartbeat interval that its call was canceled", async () => {
    const client = clientAt(backend().url, { transport: "poll" });
    const started = gate();
    const aborted = gate<unknown>();
    client.worker({
      tools: {
        slow: (_, ctx) =>
          new Promise((resolve) => {
            ctx.signal.addEventListener("abort", () => {
              aborted.open(ctx.signal.reason);
              resolve("dropped");
            });
            started.open();
          }),
      },
      onError: () => undefined,
    });
    const run = await client.runs.create();
    const call = await run.open("slow");
    await started.promise;
    await call.cancel();
    expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
  });

  test("that stops while a request of it waits gives back at once what came for it (B14)", async () => {
    const client = clientAt(backend().url, { transport: "poll" });
    const run = await client.runs.create();
    let current = client.worker({ tools: { count: () => 1 }, pollWait: "30s" });
    for (let round = 0; round < 5; round++) {
      await until("it is connected", () => current.status === "connected");
      const next = client.worker({ tools: { count: () => 1 }, pollWait: "30s" });
      const opening = run.open("count", round);
      const stopping = current.stop();
      const call = await opening;
      const openedAt = performance.now();
      expect(await call.outcome()).toMatchObject({ result: 1 });
      await stopping;
      expect(performance.now() - openedAt).toBeLessThan(5_000);
      current = next;
    }
  });

  test("notices a dead network, and its call is answered once all the same (B12, B22 d)", async () => {
    await using proxy = await TcpProxy.start(Number(new URL(backend().url).port));
    const started = gate();
    const finish = gate();
    const statuses: WorkerStatus[] = [];
    const client = clientAt(proxy.url, { transport: "poll" });
    const worker = client.worker({
      tools: {
        slow: async () => {
          started.open();
          await finish.promise;
          return "done";
        },
      },
      onStatus: (status) => statuses.push(status),
    });
    const call = await (await clientAt(backend().url).runs.create()).open("slow");
    await started.promise;
    proxy.blackHole();
    await until("it is deaf", () => worker.status === "deaf");
    finish.open();
    proxy.cut("rst");
    proxy.release();
    expect(await call.outcome()).toMatchObject({ result: "done", attempt: 1 });
    await worker.stop();
    expect(statuses).toEqual(["connected", "deaf", "connected", "draining", "stopped"]);
  });

  test("shows its progress", async () => {
    const client = clientAt(backend().url, { transport: "poll" });
    const finish = gate();
    client.worker({
      tools: {
        long: async (_, ctx) => {
          ctx.heartbeat({ done: 0.5 });
          await finish.promise;
          return 1;
        },
      },
    });
    const call = await (await client.runs.create()).open("long");
    await expect.poll(async () => (await call.status()).progress).toEqual({ done: 0.5 });
    finish.open();
    expect(await call.outcome()).toMatchObject({ result: 1 });
  });
});

test("a harness by requests that has its results lets its process end, whatever it has opened besides", async () => {
  const client = clientAt(backend().url);
  client.worker({ tools: { echo: (input) => input } });
  const { id } = await client.runs.create();
  const sdk = new URL("../../client/dist/index.js", import.meta.url).href;
  const program = `
    import { Trunkline } from "${sdk}";
    const client = new Trunkline({ url: "${backend().url}", transport: "poll" });
    const run = client.runs.open("${id}");
    await run.open("nobody");
    const abort = new AbortController();
    const forgotten = (await run.open("nobody")).outcome({ signal: abort.signal }).catch(() => "left");
    console.log(await run.call("echo", "hi"));
    abort.abort();
    console.log(await forgotten);
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], {
    timeout: 20_000,
  });
  expect(stdout).toBe("hi\nleft\n");
});
