import { randomUUID } from "node:crypto";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { CallState } from "@trunkline/proto/model";
import type { WatchRunResponse } from "@trunkline/proto/run";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Caller } from "../../server/src/core/caller.js";
import { Exchange } from "../../server/src/exchange/exchange.js";
import { serviceDeps, type ServiceDeps } from "../../server/src/service/deps.js";
import { WatchStream } from "../../server/src/service/watch-stream.js";
import { openDatabase, type Database } from "../../server/src/store/database.js";
import { until, within } from "../support/until.js";
import { useNode } from "./node.js";

const it = useNode();

const CALLER: Caller = {
  ...{ kind: "anyone", id: "", rights: new Set(["harness"]), expiresAt: null },
  scope: { projectId: 1, namespace: null },
};

/** Another node on the same database, which serves nobody but streams in this process, and counts its statements. */
let db: Database;
let deps: ServiceDeps;
const counts = new Map<string, number>();

beforeAll(() => {
  const onError = (error: unknown): void => expect.fail(String(error));
  const real = openDatabase({ url: it.database.url, maxConnections: 4, onError });
  db = {
    query: (statement, values) => {
      counts.set(statement.name, (counts.get(statement.name) ?? 0) + 1);
      return real.query(statement, values);
    },
    transaction: (work) => real.transaction(work),
    close: () => real.close(),
  };
  const exchange = new Exchange({ db, nodeId: randomUUID(), heartbeatIntervalMs: 60_000, onError });
  deps = serviceDeps(exchange, onError);
});
afterAll(() => db.close());

function watch(runId: string): AsyncGenerator<WatchRunResponse, void, undefined> {
  const { signal } = new AbortController();
  return new WatchStream(deps, CALLER, { projectId: 1, id: runId }, null, signal).responses();
}

async function next(stream: AsyncGenerator<WatchRunResponse, void, undefined>): Promise<WatchRunResponse> {
  const { value } = await within("the next response", stream.next());
  return value ?? expect.fail("the stream has ended");
}

/** What is still needed. */
function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  // What V8 makes of that flag.
  const collectGarbage = runInNewContext("gc") as () => void;
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test("a thousand watchers of one run cost one look and one read for what happens elsewhere", async () => {
  const runId = await it.node.newRun();
  const streams = Array.from({ length: 1_000 }, () => watch(runId));
  for (const { run } of await Promise.all(streams.map(next))) expect(run?.id).toBe(runId);
  const told = streams.map(next);
  await until("all are waiting", () => (counts.get("run_watch_look") ?? 0) > streams.length);
  const [callId] = await it.node.openIn(runId, { tool: "a" });
  counts.clear();
  deps.exchange.watchers.poll(true);
  for (const { call } of await Promise.all(told)) expect(call?.id).toBe(callId);
  expect(Object.fromEntries(counts)).toEqual({ run_watch_look: 1, run_watch_small_records: 1 });
  const ends = streams.map((stream) => stream.next());
  await it.node.runs.endRun({ runId });
  deps.exchange.watchers.poll(true);
  for (const { value } of await Promise.all(ends))
    expect((value as WatchRunResponse).run?.endedAt).toBeDefined();
  for (const stream of streams) {
    expect((await next(stream)).call?.state).toBe(CallState.CANCELED);
    expect((await stream.next()).done).toBe(true);
  }
  expect(deps.exchange.watchers.size).toBe(0);
});

test("a watcher that does not read costs no memory, and has the last state of every call when it reads again", async () => {
  const runId = await it.node.newRun();
  const stream = watch(runId);
  await next(stream);
  const waiting = stream.next();
  const ids = await it.node.openIn(runId, ...Array.from({ length: 60 }, () => ({ tool: "a" })));
  const result = JSON.stringify("x".repeat(400_000));
  deps.exchange.watchers.poll(true);
  expect((await waiting).value).toMatchObject({ call: { id: ids[0], state: CallState.QUEUED } });
  await it.node.settle(ids[0]!, result);
  const before = heldBytes();
  for (const id of ids.slice(1)) await it.node.settle(id, result);
  const looks = counts.get("run_watch_look") ?? 0;
  deps.exchange.watchers.poll(true);
  await until("a look", () => (counts.get("run_watch_look") ?? 0) > looks);
  await until("memory is as it was", () => heldBytes() - before < 5 * 1024 * 1024);
  await it.node.runs.endRun({ runId });
  deps.exchange.watchers.poll(true);
  const last = new Map<string, CallState>();
  for await (const { call } of stream) if (call !== undefined) last.set(call.id, call.state);
  expect([...last.keys()].sort()).toEqual([...ids].sort());
  expect(new Set(last.values())).toEqual(new Set([CallState.SUCCEEDED]));
});
