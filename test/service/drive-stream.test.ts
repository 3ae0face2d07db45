import { connect } from "node:http2";
import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { CallState } from "@trunkline/proto/model";
import { Reason } from "@trunkline/proto/problem";
import { describe, expect, test } from "vitest";
import { throughout, until } from "../support/until.js";
import { useNode } from "./node.js";
import { DriveClient, newHello, WorkClient } from "./raw-stream.js";

const INTERVAL_MS = 200;
const it = useNode({ heartbeatIntervalMs: INTERVAL_MS });
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Memory in use, of strings and of buffers. */
function usedBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const NOBODY = "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f";

/** A stream that has been welcomed and that keeps itself alive. */
async function drive(): Promise<DriveClient & AsyncDisposable> {
  const client = new DriveClient(it.node.url);
  const pings = setInterval(() => client.send({ ping: 0 }), INTERVAL_MS / 2);
  await client.when("a welcome", () => client.frames[0]?.welcome);
  return Object.assign(client, {
    [Symbol.asyncDispose]: async () => {
      clearInterval(pings);
      await client.close();
    },
  });
}

async function openOne(client: DriveClient, runId: string, call: object = { tool: "t" }): Promise<string> {
  const request = client.number();
  client.send({ opens: [{ request, runId, call }] });
  return (await client.openedAs(request)).callId;
}

describe("the stream", () => {
  test("the welcome comes at once, before anything was sent", async () => {
    const client = new DriveClient(it.node.url);
    const welcome = await client.when("a welcome", () => client.frames[0]?.welcome);
    expect(welcome).toMatchObject({ maxInputBytes: 1024 * 1024, maxFrameBytes: 4 * 1024 * 1024 });
    await client.close();
  });

  test("a ping gets a pong with its number", async () => {
    await using client = await drive();
    client.send({ ping: 4_000_000_000 });
    await client.when("a pong", () => client.frames.some(({ pong }) => pong === 4_000_000_000));
  });

  test("a harness that sends nothing for three intervals is cut", async () => {
    const client = new DriveClient(it.node.url);
    expect(await client.end()).toBe("UNAVAILABLE");
  });

  test("a frame above the limit ends the stream with FRAME_TOO_LARGE", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const inputJson = JSON.stringify("x".repeat(4 * 1024 * 1024));
    client.send({ opens: [{ request: client.number(), runId, call: { tool: "t", inputJson } }] });
    expect(await client.end()).toBe("FRAME_TOO_LARGE");
    expect(it.node.faults).toEqual([]);
  });

  test("bytes that are no message end the stream, and the node lives on", async () => {
    const session = connect(it.node.url);
    const stream = session.request({
      ":method": "POST",
      ":path": "/trunkline.v1.CallService/Drive",
      "content-type": "application/grpc+proto",
      te: "trailers",
    });
    stream.end(Buffer.from([0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]));
    const trailers = once(stream, "trailers");
    stream.resume();
    const [headers] = (await trailers) as [Record<string, string>];
    expect(headers["grpc-status"]).not.toBe("0");
    session.destroy();
    await using client = await drive();
    await client.newRun();
  });
});

describe("requests", () => {
  test("calls of one frame are opened in order, and a bad one is refused alone (I11)", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const calls = [
      { tool: "t" },
      { tool: "t", inputJson: "{" },
      { tool: "t" },
      { tool: "no tool" },
      { tool: "t" },
    ];
    const requests = calls.map(() => client.number());
    client.send({ opens: calls.map((call, index) => ({ request: requests[index]!, runId, call })) });
    expect(await client.refusal(requests[1]!)).toBe("INVALID_JSON");
    expect(await client.refusal(requests[3]!)).toBe("INVALID_FIELD");
    const opened = await Promise.all([0, 2, 4].map((index) => client.openedAs(requests[index]!)));
    expect(opened.map(({ callId }) => callId)).toEqual([`${runId}/1`, `${runId}/2`, `${runId}/3`]);
  });

  test("requests of a frame are applied in field order: an open before a cancel of it, and before the run's end", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    await openOne(client, runId);
    const [open, cancel, end] = [client.number(), client.number(), client.number()];
    client.send({
      endRuns: [{ request: end, runId }],
      cancels: [{ request: cancel, callId: `${runId}/1` }],
      opens: [{ request: open, runId, call: { tool: "t" } }],
    });
    const { callId } = await client.openedAs(open);
    expect((await client.outcomeOf(`${runId}/1`)).failure?.message).toBe("the call was canceled");
    expect((await client.outcomeOf(callId)).failure?.message).toBe("the run ended");
    await client.when("both are done", () => {
      const done = client.all((frame) => frame.done).map(({ request }) => request);
      return done.includes(cancel) && done.includes(end);
    });
  });

  test("what names nothing is refused under its number", async () => {
    await using client = await drive();
    const [open, cancel, end, run] = [client.number(), client.number(), client.number(), client.number()];
    client.send({
      runs: [{ request: run, spec: { toolset: "nothing" } }],
      opens: [{ request: open, runId: NOBODY, call: { tool: "t" } }],
      cancels: [{ request: cancel, callId: `${NOBODY}/1` }],
      endRuns: [{ request: end, runId: NOBODY }],
    });
    for (const request of [open, cancel, end, run]) expect(await client.refusal(request)).toBe("NOT_FOUND");
  });

  test("an open in an ended run is refused with RUN_ENDED", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const end = client.number();
    client.send({ endRuns: [{ request: end, runId }] });
    await client.when("the run's end", () => client.all(({ done }) => done).length > 0);
    const open = client.number();
    client.send({ opens: [{ request: open, runId, call: { tool: "t" } }] });
    expect(await client.refusal(open)).toBe("RUN_ENDED");
  });

  test("the same key gives the same call, on this stream and on another, and its outcome to both", async () => {
    await using one = await drive();
    await using two = await drive();
    const runId = await one.newRun();
    const call = { tool: "t", key: "k" };
    const ids = await Promise.all([
      openOne(one, runId, call),
      openOne(two, runId, call),
      openOne(one, runId, call),
    ]);
    expect(new Set(ids).size).toBe(1);
    expect([...one.opened.values(), ...two.opened.values()].filter(({ created }) => created)).toHaveLength(1);
    await it.node.settle(ids[0], "1");
    await Promise.all([one.outcomeOf(ids[0]), two.outcomeOf(ids[0])]);
    const other = one.number();
    one.send({ opens: [{ request: other, runId, call: { ...call, inputJson: "2" } }] });
    expect(await one.refusal(other)).toBe("KEY_REUSED");
    const late = one.number();
    one.send({ opens: [{ request: late, runId, call }] });
    expect(await one.openedAs(late)).toMatchObject({ callId: ids[0], created: false, noWorker: false });
  });
});

describe("outcomes", () => {
  test("each outcome comes once, after its opened", async () => {
    await using client = await drive();
    const tool = "once";
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 1_000 }));
    const answering = setInterval(() => {
      for (const claim of worker.claims.splice(0)) worker.answer(claim, claim.callId.split("/")[1]!);
      worker.send({ heartbeat: {} });
    }, 5);
    const runId = await client.newRun();
    const requests = Array.from({ length: 300 }, () => client.number());
    client.send({ opens: requests.map((request) => ({ request, runId, call: { tool } })) });
    await client.when("all outcomes", () => client.outcomes.length >= 300);
    clearInterval(answering);
    const order = client.frames.flatMap((frame) => [
      ...frame.opened.map(({ callId }) => `opened ${callId}`),
      ...frame.outcomes.map(({ callId }) => `ended ${callId}`),
    ]);
    for (const callId of Array.from({ length: 300 }, (_, index) => `${runId}/${index + 1}`)) {
      expect(order.indexOf(`opened ${callId}`)).toBeLessThan(order.indexOf(`ended ${callId}`));
      expect(order.filter((event) => event === `ended ${callId}`)).toHaveLength(1);
    }
    await worker.close();
  });

  test("watch gives the outcome of an ended call at once, of an open one when it ends, and says what is not there", async () => {
    const [ended, open] = await it.node.open({ tool: "t" }, { tool: "t" });
    await it.node.settle(ended!, "1");
    await using client = await drive();
    client.send({ watch: [ended!, open!, `${NOBODY}/1`, "nonsense"] });
    expect(await client.outcomeOf(ended!)).toMatchObject({ state: CallState.SUCCEEDED, resultJson: "1" });
    await client.when("both unknown ids", () => client.all(({ unwatched }) => unwatched).length === 2);
    expect(client.all(({ unwatched }) => unwatched).map(({ problem }) => Reason[problem!.reason])).toEqual([
      "NOT_FOUND",
      "NOT_FOUND",
    ]);
    expect(client.outcomes).toHaveLength(1);
    await it.node.settle(open!, "2");
    expect((await client.outcomeOf(open!)).endedAt).toBeDefined();
  });

  test("a call that ends while a watch looks at it is told of once", async () => {
    await using client = await drive();
    const ids = await it.node.open(...Array.from({ length: 50 }, () => ({ tool: "t" })));
    for (const id of ids) {
      client.send({ watch: [id] });
      void it.node.settle(id, "1");
    }
    await Promise.all(ids.map((id) => client.outcomeOf(id)));
    client.send({ ping: 7 });
    await client.when("a pong", () => client.frames.some(({ pong }) => pong === 7));
    expect(client.outcomes).toHaveLength(ids.length);
  });

  test("a harness that closes its half still gets what it asked for, and then an orderly end (S03)", async () => {
    const client = new DriveClient(it.node.url);
    const runId = await client.newRun();
    const callId = await openOne(client, runId);
    client.halfClose();
    const before = client.frames.length;
    await throughout(4 * INTERVAL_MS, () => expect(client.ended).toBeUndefined());
    // A proxy would cut what says nothing.
    expect(client.frames.length - before).toBeGreaterThanOrEqual(3);
    await it.node.settle(callId, "1");
    expect(await client.end()).toBe("ok");
    expect(client.outcomes).toMatchObject([{ callId, resultJson: "1" }]);
  });

  test("a harness that is gone leaves nothing that waits, not even for opens that were under way (S02)", async () => {
    const runId = await it.node.newRun();
    for (let round = 0; round < 10; round++) {
      const client = new DriveClient(it.node.url);
      const opens = Array.from({ length: 50 }, () => ({
        request: client.number(),
        runId,
        call: { tool: "t" },
      }));
      client.send({ opens });
      if (round % 2 === 0) await client.when("an answer", () => client.opened.size > 0);
      else await client.when("a welcome", () => client.frames[0]?.welcome);
      if (round % 3 === 0) client.reset();
      else client.cut();
      await client.end();
    }
    await until("nobody waits any more", () => it.node.exchange.waiters.size === 0);
    await until("all streams have been let go", () => it.node.deps.streams.size === 0);
    await it.node.newRun();
    expect(it.node.exchange.waiters.size).toBe(0);
  });
});

describe("load", () => {
  test("more opens than may wait are all opened, in order, in frames below the limit", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const requests = Array.from({ length: 12_000 }, () => client.number());
    for (let start = 0; start < requests.length; start += 2_000) {
      const opens = requests
        .slice(start, start + 2_000)
        .map((request) => ({ request, runId, call: { tool: "t", executor: "client" } }));
      client.send({ opens });
    }
    await client.when("all answers", () => client.opened.size === requests.length, 25_000);
    const seqs = requests.map((request) => Number(client.opened.get(request)!.callId.split("/")[1]));
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    const end = client.number();
    client.send({ endRuns: [{ request: end, runId }] });
    await client.when("all outcomes", () => client.outcomes.length === requests.length, 25_000);
    expect(Math.max(...client.frames.map(({ outcomes }) => outcomes.length))).toBeLessThan(3_000);
  });

  test("a slow reader's outcomes are kept as ids, and all come when it reads", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const requests = Array.from({ length: 120 }, () => client.number());
    client.send({ opens: requests.map((request) => ({ request, runId, call: { tool: "t" } })) });
    await client.when("all answers", () => client.opened.size === requests.length);
    client.pause();
    const resultJson = JSON.stringify("r".repeat(250_000));
    const ids = [...client.opened.values()].map(({ callId }) => callId);
    const before = usedBytes();
    for (let start = 0; start < ids.length; start += 10) {
      await it.node.calls.settleCalls({
        items: ids.slice(start, start + 10).map((callId) => ({
          call: { callId },
          settlement: { outcome: { case: "resultJson", value: resultJson } },
        })),
      });
    }
    // All of them are 30 MB; what the requests took is freed bit by bit.
    await until("most of it is not in memory", () => usedBytes() - before < 60 * 250_000);
    client.resume();
    await client.when("all outcomes", () => client.outcomes.length === ids.length);
    expect(client.outcomes.every((outcome) => outcome.resultJson === resultJson)).toBe(true);
    expect(new Set(client.outcomes.map(({ callId }) => callId)).size).toBe(ids.length);
  });

  test("failures with much data never make a frame above the limit", async () => {
    await using client = await drive();
    const runId = await client.newRun();
    const requests = Array.from({ length: 100 }, () => client.number());
    client.send({ opens: requests.map((request) => ({ request, runId, call: { tool: "t" } })) });
    await client.when("all answers", () => client.opened.size === requests.length);
    const dataJson = JSON.stringify("d".repeat(60_000));
    const items = [...client.opened.values()].map(({ callId }) => ({
      call: { callId },
      settlement: { outcome: { case: "failure" as const, value: { message: "m", dataJson } } },
    }));
    for (let start = 0; start < items.length; start += 50) {
      await it.node.calls.settleCalls({ items: items.slice(start, start + 50) });
    }
    await client.when("all outcomes", () => client.outcomes.length === requests.length);
    expect(Math.max(...client.frames.map(({ outcomes }) => outcomes.length))).toBeLessThan(10);
  });
});
