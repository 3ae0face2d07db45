import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rawJson, type Outcome, type Trunkline } from "@trunkline/sdk";
import { useDatabase } from "../support/database.js";
import { ServerProcess } from "../support/server-process.js";
import { clientOf } from "../support/stack.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { lasting, until, within } from "../support/until.js";
import type { ForeignClient } from "./foreign-cases/client.js";
import { GrpcJsClient } from "./foreign-cases/grpc-js.js";
import { grpcioClient } from "./foreign-cases/grpcio.js";
import { ExampleProcess } from "./support/example-process.js";
import { EXAMPLES, hasToolchain, needsBuild, type Example } from "./support/example-workers.js";

/*
 * Cases that look different to those who do not use the SDK: the example workers in other languages, as examples.test.ts
 * has built them, and clients that are nothing but a gRPC library and stubs. `npm run test:long`.
 */

const INTERVAL_MS = 300;
const KIB = 1024;
const MIB = 1024 * KIB;
const MAX_DEPTH = 256;
const QUICKLY_MS = 5_000;
const BUILD_MS = 900_000;
const SLOTS = 10;
/** What a reconnect may take, and what a busy machine adds. */
const RETRY_MS = 2_000;
const LATE_MS = 1_000;

const database = useDatabase();
let server: ServerProcess;
let client: Trunkline;

beforeAll(async () => {
  server = await ServerProcess.start({
    databaseUrl: database.url,
    heartbeatInterval: `${INTERVAL_MS}ms`,
  });
  client = clientOf(server.url);
});

afterAll(async () => {
  await client.close();
  await server.stop();
});

const arrays = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
const objects = (depth: number): string => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);
const jsonOf = (bytes: number): string => `"${"x".repeat(bytes - 2)}"`;

const examples: Example[] = [];
for (const example of EXAMPLES) if (await hasToolchain(example)) examples.push(example);

describe.each(examples)("the example worker in $language", (example) => {
  let proxy: TcpProxy;
  let worker: ExampleProcess;

  beforeAll(async () => {
    await needsBuild(example);
    proxy = await TcpProxy.start(server.port);
    worker = new ExampleProcess(example, proxy.url, SLOTS);
    await until("the worker is there", () => proxy.connections > 0);
  }, BUILD_MS);

  afterAll(async () => {
    await worker.kill();
    await proxy[Symbol.asyncDispose]();
  });

  async function outcomeOf(tool: string, inputJson: string): Promise<Outcome> {
    const run = await client.runs.create();
    const call = await run.open(tool, rawJson(inputJson));
    return within(`the outcome of ${tool}`, call.outcome(), QUICKLY_MS);
  }

  async function goesOn(): Promise<void> {
    expect(await outcomeOf("echo", '{"still":"there"}')).toMatchObject({ resultJson: '{"still":"there"}' });
    expect(worker.isAlive).toBe(true);
  }

  test.each([
    ["arrays", arrays],
    ["objects", objects],
  ])("reads and writes %s as deep as the server lets through (B19)", async (_, nested) => {
    const text = nested(MAX_DEPTH);
    expect(await outcomeOf("echo", text)).toMatchObject({ resultJson: text });
    const data = nested(MAX_DEPTH - 1);
    const failed = await outcomeOf("fail", `{"message":"deep","data":${data},"retryable":false}`);
    expect(failed.error).toMatchObject({ kind: "tool", message: "deep" });
    expect(failed.error?.dataJson?.replaceAll(/\s/g, "")).toBe(data);
    await goesOn();
  });

  test("takes input and gives results at the limit, and many at once, whose frames its library takes (B23)", async () => {
    const run = await client.runs.create();
    const sizes = [...Array<number>(SLOTS).fill(MIB), ...Array<number>(4 * SLOTS).fill(250 * KIB)];
    const calls = await Promise.all(sizes.map((bytes) => run.open("echo", rawJson(jsonOf(bytes)))));
    const outcomes = await Promise.all(calls.map((call) => within("its outcome", call.outcome())));
    expect(outcomes.map(({ resultJson }) => resultJson?.length)).toEqual(sizes);
    expect(outcomes.every(({ attempt }) => attempt === 1)).toBe(true);
    expect(proxy.connections).toBe(1);
  });

  test.each([MIB + 1, 5 * MIB, 50 * MIB])(
    "with a result of %i bytes fails that call at once and for good, and goes on (B23)",
    async (bytes) => {
      const run = await client.runs.create();
      const call = await run.open("big", { bytes: bytes - 2 });
      const { error, attempt } = await within("the failure", call.outcome(), QUICKLY_MS);
      expect(error).toMatchObject({ kind: "oversized", retryable: false });
      expect(error?.message).toContain(String(bytes));
      expect(error?.message).toContain(String(MIB));
      expect([attempt, worker.starts(call.id)]).toEqual([1, 1]);
      await goesOn();
      expect(proxy.connections).toBe(1);
    },
  );

  const cuts: [string, (proxy: TcpProxy) => void][] = [
    ["of all that its connection carries", (proxy) => proxy.strand()],
    ["of what the server says", (proxy) => proxy.hold("down")],
    ["of what it says", (proxy) => proxy.hold("up")],
  ];
  test.each(cuts)(
    "notices a silent drop %s, is back, and goes on with what it holds (B22)",
    async (_, cut) => {
      const run = await client.runs.create();
      const held = await run.open("sleep", { ms: 5 * INTERVAL_MS });
      await worker.started(held.id);
      const before = proxy.connections;
      const cutAt = performance.now();
      cut(proxy);
      // Other requests pass.
      const opened = await run.open("echo", "meanwhile", { policy: { mode: "at_most_once" } });
      await until("another connection", () => proxy.connections > before);
      const noticedMs = performance.now() - cutAt;
      proxy.release();
      expect(noticedMs).toBeGreaterThan(2 * INTERVAL_MS);
      expect(noticedMs).toBeLessThan(4 * INTERVAL_MS + RETRY_MS + LATE_MS);
      const [slept, echoed] = await within(
        "both outcomes",
        Promise.all([held.outcome(), opened.outcome()]),
        noticedMs + QUICKLY_MS,
      );
      expect(slept).toMatchObject({ state: "succeeded", attempt: 1, result: { slept: true } });
      expect(echoed).toMatchObject({ state: "succeeded", result: "meanwhile" });
      expect([held, opened].map(({ id }) => worker.starts(id))).toEqual([1, 1]);
    },
  );

  test("leaves in order when it is told to", async () => {
    expect(await worker.terminate()).toEqual({ status: 0, signal: null });
  });
});

/** A gRPC library, and a client of it for an address. */
interface Library {
  readonly library: string;
  /** Whose stubs it needs. */
  readonly stubs?: Example | undefined;
  readonly connect: (address: string) => ForeignClient & Partial<Disposable>;
}

const python = examples.find(({ folder }) => folder === "python");
const libraries: readonly Library[] = [
  { library: "@grpc/grpc-js", connect: (address) => new GrpcJsClient(address) },
  ...(python === undefined ? [] : [{ library: "grpcio", stubs: python, connect: grpcioClient }]),
];

describe.each(libraries)("a client of $library", ({ stubs, connect }) => {
  let foreign: ReturnType<typeof connect>;
  let beside: Trunkline;

  beforeAll(async () => {
    if (stubs !== undefined) await needsBuild(stubs);
    foreign = connect(new URL(server.url).host);
    beside = clientOf(server.url);
    const worker = beside.worker({
      tools: {
        own: (_, { inputJson }) => rawJson(inputJson),
        slow: (_, { inputJson }) => lasting(5 * INTERVAL_MS).then(() => rawJson(inputJson)),
      },
    });
    await until("the worker is there", () => worker.status === "connected");
  }, BUILD_MS);

  afterAll(async () => {
    foreign[Symbol.dispose]?.();
    await beside.close();
  });

  const runId = async (): Promise<string> => (await client.runs.create()).id;
  const OK = { code: "OK" };

  test("that closes its side behind its opens gets their outcomes, however long they take (S03)", async () => {
    const inputs = ["1", '"two"', "[3]"];
    const { end, opened, refused, results } = await foreign.drive({
      runId: await runId(),
      tool: "slow",
      inputs,
    });
    expect(end).toMatchObject(OK);
    expect([opened, refused]).toEqual([inputs.length, 0]);
    expect([...results].sort()).toEqual([...inputs].sort());
  });

  test("that closes its side behind an answer gets its ack, and the answer counts (S03)", async () => {
    const run = await client.runs.create();
    const tool = `once_${run.id}`;
    const call = await run.open(tool);
    const nonce = randomBytes(16).toString("hex");
    const hello = { sessionId: randomUUID(), nonce, worker: "foreign", tools: [tool], slots: 1 };
    const { end, acks } = await foreign.work({ hello, resultJson: '"kept"' });
    expect(end).toMatchObject(OK);
    expect(acks).toEqual([true]);
    expect(await call.outcome()).toMatchObject({ state: "succeeded", result: "kept", attempt: 1 });
  });

  test("is told of a bogus token by a code that nobody tries again (S16)", async () => {
    const run = await client.runs.create();
    const { id } = await run.open("unserved");
    const secret = "A".repeat(43);
    const bogus = [
      "bogus",
      `${id}.1.${secret}`,
      `${id}.1`,
      `${run.id}/99.1.${secret}`,
      "\u0000",
      "x".repeat(10_000),
    ];
    const ends = await foreign.tokens(bogus);
    expect(ends).toHaveLength(3 * bogus.length);
    for (const end of ends) {
      expect(end).toMatchObject({
        code: "NOT_FOUND",
        reason: "TOKEN_INVALID",
        message: expect.stringMatching(/./),
      });
    }
  });

  test("gets pages that fit what it receives by default, of results and inputs of a mebibyte (B23)", async () => {
    const run = await client.runs.create();
    const text = jsonOf(MIB);
    await Promise.all(
      Array.from({ length: 5 }, async () => {
        const call = await run.open("own", rawJson(text), { turn: 1 });
        await call.outcome();
      }),
    );
    const { waited, listed } = await foreign.pages({ runId: run.id, turn: 1 });
    expect(waited.flat()).toEqual(Array(5).fill(MIB));
    expect(listed.flat()).toEqual(Array(5).fill(2 * MIB));
    expect(Math.max(...[...waited, ...listed].map((page) => page.length))).toBeGreaterThan(1);
  });

  test("has a frame of 4 MiB taken, and one of a byte more refused by its size alone (B23)", async () => {
    const asked = { runId: await runId(), tool: "own" };
    const fits = await foreign.frame({ ...asked, bytes: 4 * MIB });
    expect(fits).toMatchObject({ end: OK, opened: 4, refused: 0 });
    expect(fits.results).toHaveLength(4);
    const over = await foreign.frame({ ...asked, bytes: 4 * MIB + 1 });
    expect(over).toMatchObject({
      end: { code: "RESOURCE_EXHAUSTED", reason: "FRAME_TOO_LARGE" },
      opened: 0,
    });
    expect(over.end.message).toContain(String(4 * MIB + 1));
    expect(over.end.message).toContain(String(4 * MIB));
  });

  test("reads all that was taken, however deep, and is told what was not (B19)", async () => {
    const good = [MAX_DEPTH, 100, 40].flatMap((depth) => [arrays(depth), objects(depth)]);
    const bad = [MAX_DEPTH + 1, 1_000, 10_000, 100_000].flatMap((depth) => [arrays(depth), objects(depth)]);
    const inputs = [...good, ...bad, '"last"'];
    const { refused, results } = await foreign.deep({ runId: await runId(), tool: "own", inputs });
    expect(refused).toHaveLength(bad.length);
    for (const message of refused) expect(message).toMatch(/nests \d+ .*at most 256/);
    expect(results.map((text) => text.replaceAll(" ", ""))).toEqual([...good, '"last"']);
  });

  test("that sends groups 100,000 deep is refused, and no other stream feels it (B19)", async () => {
    const ends = await foreign.groups(100_000);
    expect(ends.map(({ code }) => code)).toEqual([
      "INVALID_ARGUMENT",
      "INVALID_ARGUMENT",
      "INVALID_ARGUMENT",
    ]);
    for (const { message } of ends) expect(message).toContain("recursion depth");
    const run = await beside.runs.create();
    expect(await run.call("own", "undisturbed")).toBe("undisturbed");
  });
});

test("nothing of this was a fault of the server", () => {
  expect(server.faults).toEqual([]);
  expect(server.log).not.toContain("RangeError");
});
