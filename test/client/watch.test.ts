import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Call, RunEvent, Trunkline, TrunklineError } from "../../client/src/index.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until, within } from "../support/until.js";
import { useBackend } from "./support/server.js";

const ROOT = "root-key-of-the-test";
const backend = useBackend(ROOT);
let root: Trunkline;

beforeAll(() => {
  root = backend().client({ key: ROOT });
});
afterAll(() => root.close());

/** Follows a run in the background. */
class Follower {
  readonly events: RunEvent[] = [];
  readonly calls = new Map<string, Call>();
  /** How it ended: `done`, or what was thrown. */
  readonly over: Promise<unknown>;

  constructor(events: AsyncIterable<RunEvent>) {
    this.over = this.#follow(events);
    this.over.catch(() => undefined);
  }

  state(callId: string): string | undefined {
    return this.calls.get(callId)?.state;
  }

  end(): Promise<unknown> {
    return within("the end of the watching", this.over);
  }

  async #follow(events: AsyncIterable<RunEvent>): Promise<unknown> {
    try {
      for await (const event of events) {
        this.events.push(event);
        if (event.type === "call") this.calls.set(event.call.id, event.call);
      }
      return "done";
    } catch (thrown) {
      return thrown;
    }
  }
}

describe.each(["stream", "poll"] as const)("a run that is watched by %s", (transport) => {
  let proxy: TcpProxy;
  let client: Trunkline;
  const warnings: string[] = [];

  beforeAll(async () => {
    proxy = await TcpProxy.start(Number(new URL(backend().url).port));
    const { url } = proxy;
    client = backend().client({ key: ROOT, transport, onWarning: (text) => warnings.push(text), ...{ url } });
  });
  afterAll(async () => {
    await client.close();
    await proxy[Symbol.asyncDispose]();
  });

  test("is told with its calls, parsed, and the watching ends with the last of them", async () => {
    const run = await root.runs.create({ labels: { a: "b" } });
    const follower = new Follower(client.runs.open(run.id).watch());
    const call = await run.open("ask", { question: 1 });
    await until("the call", () => follower.state(call.id) === "queued");
    await root.calls.settle(call.id, { type: "tool.result", result: { answer: 2 } });
    await until("its end", () => follower.state(call.id) === "succeeded");
    await run.end();
    expect(await follower.end()).toBe("done");
    expect(follower.events[0]).toMatchObject({
      type: "run",
      run: { id: run.id, state: "active", labels: { a: "b" } },
    });
    expect(follower.events.at(-1)).toMatchObject({ type: "run", run: { state: "ended" } });
    expect(follower.calls.get(call.id)).toEqual(await root.calls.get(call.id));
    expect(follower.calls.get(call.id)).toMatchObject({ input: { question: 1 }, result: { answer: 2 } });
  });

  test("is followed over cuts and a black hole without missing anything", async () => {
    const run = await root.runs.create();
    const follower = new Follower(client.runs.open(run.id).watch());
    const ids: string[] = [];
    for (const disturb of [() => proxy.cut("rst"), () => proxy.strand(), () => proxy.cut("fin")]) {
      const before = await run.open("ask");
      ids.push(before.id);
      await until("what was before", () => follower.state(before.id) === "queued");
      await root.calls.settle(before.id, { type: "tool.result" });
      disturb();
      const meanwhile = await run.open("ask");
      await root.calls.cancel(meanwhile.id);
      ids.push(meanwhile.id);
      await until("what was missed", () => follower.state(meanwhile.id) === "canceled");
    }
    await run.end();
    expect(await follower.end()).toBe("done");
    expect([...follower.calls.keys()].sort()).toEqual(ids.sort());
  });

  test("goes on from a cursor of another process", async () => {
    const run = await root.runs.create();
    const [first, second] = [await run.open("ask"), await run.open("ask")];
    let cursor = "";
    for await (const event of client.runs.open(run.id).watch()) {
      ({ cursor } = event);
      if (event.type === "call" && event.call.id === second.id) break;
    }
    await root.calls.cancel(second.id);
    await run.end();
    const follower = new Follower(root.runs.open(run.id).watch({ cursor }));
    expect(await follower.end()).toBe("done");
    expect(
      follower.events.map((event) => (event.type === "call" ? event.call.id : event.run.state)),
    ).toContain("ended");
    expect([follower.state(first.id), follower.state(second.id)]).toEqual(["canceled", "canceled"]);
  });
});

test("it goes on over a restart of the server", async () => {
  const run = await root.runs.create();
  const follower = new Follower(run.watch());
  await until("the run", () => follower.events.length > 0);
  await backend().restart();
  const call = await run.open("ask");
  await until("the call", () => follower.state(call.id) === "queued");
  await run.end();
  expect(await follower.end()).toBe("done");
});

describe("watching ends with", () => {
  const reasonAt = async (follower: Follower): Promise<string> =>
    ((await follower.end()) as TrunklineError).reason;

  test("the signal's reason when it aborts, and with nothing when the loop is left", async () => {
    const run = await root.runs.create();
    const abort = new AbortController();
    const follower = new Follower(run.watch({ signal: abort.signal }));
    await until("the run", () => follower.events.length > 0);
    abort.abort(new Error("enough"));
    expect(await follower.end()).toMatchObject({ message: "enough" });
    const aborted = new Follower(run.watch({ signal: AbortSignal.abort(new Error("before")) }));
    expect(await aborted.end()).toMatchObject({ message: "before" });
    for await (const { type } of run.watch()) {
      expect(type).toBe("run");
      break;
    }
  });

  test("CLOSED when the client is closed", async () => {
    const client = backend().client({ key: ROOT });
    const run = await client.runs.create();
    const follower = new Follower(run.watch());
    await until("the run", () => follower.events.length > 0);
    await client.close();
    expect(await reasonAt(follower)).toBe("CLOSED");
    expect(await reasonAt(new Follower(run.watch()))).toBe("CLOSED");
  });

  test("a refused key, a key that is revoked meanwhile, a run that is not there, and a cursor that is none", async () => {
    const made = await root.keys.create({ name: "watches", scopes: ["harness"] });
    const client = backend().client({ key: made.key });
    const run = await client.runs.create();
    const follower = new Follower(run.watch());
    await until("the run", () => follower.events.length > 0);
    await root.keys.revoke(made.id);
    expect(await reasonAt(follower)).toBe("UNAUTHENTICATED");
    expect(await reasonAt(new Follower(run.watch()))).toBe("UNAUTHENTICATED");
    expect(await reasonAt(new Follower(root.runs.open("x").watch()))).toBe("NOT_FOUND");
    expect(await reasonAt(new Follower(root.runs.open(run.id).watch({ cursor: "x" })))).toBe("INVALID_FIELD");
    await client.close();
  });

  test("options that cannot be are refused at once", () => {
    const run = root.runs.open("x");
    for (const options of [{ cursors: "x" }, { cursor: 1 }, { signal: {} }, 7])
      expect(() => run.watch(options as never)).toThrow(/allowed/);
  });
});

test("a key that expires is asked for anew, and the watching goes on", async () => {
  const run = await root.runs.create();
  let given = 0;
  const client = backend().client({
    key: async () => {
      given++;
      return (await root.tokens.create({ namespace: "default", scopes: ["harness"], ttl: "1s" })).token;
    },
  });
  const follower = new Follower(client.runs.open(run.id).watch());
  await until("another key", () => given >= 2);
  const call = await run.open("ask");
  await until("the call", () => follower.state(call.id) === "queued");
  await run.end();
  expect(await follower.end()).toBe("done");
  await client.close();
});

test("what watches runs needs neither Node nor the wire, so that a browser can use it", async () => {
  const seen = new Set<string>();
  const needed = new Set<string>();
  const visit = async (file: string): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const source = await readFile(new URL(`../../client/src/${file}`, import.meta.url), "utf8");
    expect(source).not.toMatch(/\bprocess\.|\bBuffer\.|\bsetImmediate\(|\bnode:/);
    for (const [, isType = "", from = ""] of source.matchAll(/^import (type )?[^;]*? from "([^"]+)";/gms)) {
      if (isType !== "") continue;
      if (from.startsWith("./")) await visit(from.slice(2).replace(/\.js$/, ".ts"));
      else needed.add(from.replace(/^(@[^/]+\/[^/]+|[^/]+).*$/, "$1"));
    }
  };
  await visit("watch.ts");
  expect([...needed]).toEqual([]);
});
