import { createClient, type Interceptor } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { AdminService, KeyScope } from "@trunkline/proto/admin";
import { CallState, FailureKind, type Call } from "@trunkline/proto/model";
import { RunService, RunState } from "@trunkline/proto/run";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { HostToolError, Trunkline } from "../../client/src/index.js";
import { somewhereWithin, until } from "../support/until.js";
import { TestNode, useNode } from "./node.js";
import { WorkClient } from "./raw-stream.js";
import { WatchClient } from "./watch-client.js";

const it = useNode();
/** No worker has this tool. */
const IDLE = { tool: "ask" };

/** All calls of a run as `ListCalls` has them, by id. */
async function listed(node: TestNode, runId: string): Promise<Map<string, Call>> {
  const all = new Map<string, Call>();
  for (let pageToken = ""; ;) {
    const page = await node.calls.listCalls({ runId, payloads: true, pageToken });
    for (const call of page.calls) all.set(call.id, call);
    if (page.nextPageToken === "") return all;
    pageToken = page.nextPageToken;
  }
}

const seqOf = (callId: string): number => Number(callId.split("/")[1]);

test("it tells the run and its calls in the order of their numbers first, and ends once all has ended", async () => {
  const { node } = it;
  const runId = await node.newRun({ labels: { a: "b" } });
  const ids = await node.openIn(
    runId,
    ...Array.from({ length: 70 }, () => ({ ...IDLE, inputJson: '{"a": 1.0}' })),
  );
  await node.settle(ids[3]!, "9007199254740993");
  const watch = new WatchClient(node.runs, runId);
  await watch.when("all calls", () => watch.calls.size === ids.length);
  const [first, ...rest] = watch.responses;
  expect(first).toMatchObject({ run: { id: runId, state: RunState.ACTIVE } });
  expect(first?.call).toBeUndefined();
  expect(first?.heartbeatInterval?.nanos).toBe(200_000_000);
  expect(rest.flatMap(({ call }) => call?.id ?? [])).toEqual(ids);
  expect(watch.calls.get(ids[3]!)).toMatchObject({
    ...{ state: CallState.SUCCEEDED, inputJson: '{"a": 1.0}', resultJson: "9007199254740993" },
    labels: { a: "b" },
  });
  await node.runs.endRun({ runId });
  expect(await watch.end()).toBe("ok");
  expect(watch.run?.state).toBe(RunState.ENDED);
  expect(watch.calls).toEqual(await listed(node, runId));
  expect(watch.repeats).toEqual([]);
  expect(node.exchange.watchers.size).toBe(0);
  const late = new WatchClient(node.runs, runId);
  expect(await late.end()).toBe("ok");
  expect([late.run?.state, late.calls.size]).toEqual([RunState.ENDED, ids.length]);
});

test("every step of a call's life is told as it happens", async () => {
  const { node } = it;
  const runId = await node.newRun();
  const watch = new WatchClient(node.runs, runId);
  await watch.when("the run", () => watch.run);
  const policy = { backoffInitial: { nanos: 1_000_000 } };
  const [call = ""] = await node.openIn(runId, { tool: "life", policy });
  await watch.whenIn(call, "queued");
  const work = await WorkClient.open(node.url, { tools: ["life"] });
  const beats = setInterval(
    () => work.send({ heartbeat: { claims: work.claims.map(({ claimId }) => claimId) } }),
    100,
  );
  onTestFinished(() => clearInterval(beats));
  const first = await work.claimOf(call);
  await watch.whenIn(call, "claimed");
  work.send({
    heartbeat: { claims: [first.claimId], progress: [{ claimId: first.claimId, progressJson: "0.50" }] },
  });
  await watch.when("progress", () => watch.calls.get(call)?.progressJson === "0.50");
  work.send({
    heartbeat: { claims: [first.claimId], progress: [{ claimId: first.claimId, progressJson: "0.75" }] },
  });
  await watch.when("more progress", () => watch.calls.get(call)?.progressJson === "0.75");
  const again = { kind: FailureKind.TOOL, message: "again", retryable: true };
  work.send({
    answers: [{ callId: call, claimId: first.claimId, outcome: { case: "failure", value: again } }],
  });
  const second = await work.claimOf(call, 2);
  await watch.when("the second attempt", () => watch.calls.get(call)?.attempt === 2);
  const secret = "s".repeat(43);
  work.send({ deferrals: [{ callId: call, claimId: second.claimId, secret, timeout: { seconds: 60n } }] });
  await watch.whenIn(call, "deferred");
  await node.tasks.completeTask({ token: `${call}.2.${secret}`, resultJson: "1e2" });
  await watch.whenIn(call, "succeeded");
  expect(watch.states.get(call)?.join(" ")).toMatch(
    /^queued (claimed )+(queued )+(claimed )+deferred succeeded$/,
  );
  const [released = "", canceled = ""] = await node.openIn(runId, { tool: "life" }, { tool: "life" });
  const given = await work.claimOf(released);
  work.send({ releases: [given.claimId] });
  await work.claimOf(released, 2);
  await watch.when("the claim after the release", () => watch.calls.get(released)?.attempt === 2);
  await node.calls.cancelCall({ call: { callId: canceled } });
  await watch.whenIn(canceled, "canceled");
  await node.runs.endRun({ runId });
  expect(await watch.end()).toBe("ok");
  expect(watch.calls).toEqual(await listed(node, runId));
  expect(watch.repeats).toEqual([]);
  await work.close();
});

test("in quiet times a response comes in each heartbeat interval, and moves the cursor on", async () => {
  const { node } = it;
  const runId = await node.newRun();
  const [call = ""] = await node.openIn(runId, IDLE);
  const watch = new WatchClient(node.runs, runId);
  await watch.whenIn(call, "queued");
  await node.settle(call, "1");
  await watch.whenIn(call, "succeeded");
  const [told, { cursor: before }] = [watch.responses.length, watch];
  await watch.when("signs of life", () => watch.responses.length >= told + 2);
  expect(watch.responses.slice(told).map(({ call, run }) => call ?? run)).toEqual([undefined, undefined]);
  await watch.when("another cursor", () => watch.cursor !== before);
  await watch.cut();
  const { cursor } = watch;
  const again = new WatchClient(node.runs, runId, cursor);
  await again.when("a sign of life", () => again.responses.length > 0);
  const [second = ""] = await node.openIn(runId, IDLE);
  await again.whenIn(second, "queued");
  expect([...again.calls.keys()]).toEqual([second]);
  expect(again.run).toBeUndefined();
  await again.cut();
  await until("nobody watches", () => node.exchange.watchers.size === 0);
});

test("a stream that is cut in the middle of the beginning goes on from there", async () => {
  const { node } = it;
  const runId = await node.newRun();
  const ids = await node.openIn(runId, ...Array.from({ length: 100 }, () => IDLE));
  const first = new WatchClient(node.runs, runId);
  await first.when("all calls", () => first.calls.size === 100);
  await first.cut();
  const { cursor } = first.responses[40]!;
  await node.settle(ids[5]!, "1");
  await node.settle(ids[90]!, "1");
  const second = new WatchClient(node.runs, runId, cursor);
  await second.when("the rest", () => second.calls.size === 61);
  // First the rest, and then what has changed meanwhile.
  expect([...second.calls.keys()].map(seqOf)).toEqual([...Array.from({ length: 60 }, (_, at) => at + 41), 6]);
  await second.cut();
});

test("a stream that is cut again and again after a few responses gets to the end, whatever changes meanwhile", async () => {
  const { node } = it;
  const runId = await node.newRun();
  const ids = await node.openIn(runId, ...Array.from({ length: 80 }, () => IDLE));
  const seen = new Map<string, Call>();
  let cursor = "";
  /** Has four more responses. */
  const on = async (): Promise<void> => {
    const watch = new WatchClient(node.runs, runId, cursor);
    await watch.when("a few responses", () => watch.responses.length >= 4);
    await watch.cut();
    for (const { call } of watch.responses.slice(0, 4)) if (call !== undefined) seen.set(call.id, call);
    ({ cursor } = watch.responses[3]!);
  };
  for (let round = 0; round < 5; round++) await on();
  // Before the place that it has come to, and after it.
  for (const id of [...ids.slice(0, 12), ...ids.slice(60, 72)]) await node.settle(id, "1");
  for (let round = 0; round < 25; round++) await on();
  for (const id of ids.slice(12, 50)) await node.settle(id, "2");
  for (let round = 0; round < 15; round++) await on();
  expect(seen).toEqual(await listed(node, runId));
});

describe("refusals:", () => {
  test("a run that is not there, and a cursor that is not of this run", async () => {
    const { node } = it;
    const faults = node.faults.length;
    const [runId, other] = [await node.newRun(), await node.newRun()];
    const watch = new WatchClient(node.runs, other);
    await watch.when("the run", () => watch.run);
    await watch.cut();
    const text = JSON.stringify(["watch:x", ["1:1:", 0, 0, null, false]]);
    for (const cursor of [watch.cursor, "x", Buffer.from(text).toString("base64url")])
      expect(await new WatchClient(node.runs, runId, cursor).end()).toBe("INVALID_FIELD");
    for (const id of ["01890000-0000-7000-8000-000000000000", "x", ""])
      expect(await new WatchClient(node.runs, id).end()).toBe("NOT_FOUND");
    expect(node.faults.slice(faults)).toEqual([]);
  });

  test("a snapshot in a cursor that PostgreSQL would not read is refused before it is asked", async () => {
    const { node } = it;
    const faults = node.faults.length;
    const runId = await node.newRun();
    const watch = new WatchClient(node.runs, runId);
    await watch.when("the run", () => watch.run);
    await watch.cut();
    const [list, place] = JSON.parse(Buffer.from(watch.cursor, "base64url").toString()) as [
      string,
      unknown[],
    ];
    const big = "9".repeat(19);
    const bad = [
      ...[
        "",
        "1",
        "1:2",
        "2:1:",
        "0:1:",
        `1:${big}:`,
        "5:9:4",
        "5:9:9",
        "5:9:7,6",
        "5:9:7,7",
        "5:9:7,",
        "1:2:;--",
      ],
      7,
    ].map((snapshot) => [snapshot, ...place.slice(1)]);
    bad.push([...place, 1], [place[0], -1, ...place.slice(2)], [place[0], 1e300, ...place.slice(2)]);
    // What was seen of the rest.
    bad.push([...place, "1:2", 0, 0], [...place, "1:1:", 0], [...place, "1:1:", 0, 0, 0]);
    for (const each of bad) {
      const cursor = Buffer.from(JSON.stringify([list, each])).toString("base64url");
      expect(await new WatchClient(node.runs, runId, cursor).end(), JSON.stringify(each)).toBe(
        "INVALID_FIELD",
      );
    }
    const all = Buffer.from(JSON.stringify([list, ["3:9:3,5", ...place.slice(1)]])).toString("base64url");
    const good = new WatchClient(node.runs, runId, all);
    await good.when("a sign of life", () => good.responses.length > 0);
    await good.cut();
    expect(node.faults.slice(faults)).toEqual([]);
  });
});

describe("whoever watches", () => {
  test.each(["Connect over HTTP/1.1", "gRPC", "gRPC-Web", "JSON"] as const)(
    "by %s sees all of it",
    async (protocol) => {
      const { node } = it;
      const common = { baseUrl: node.url, httpVersion: "1.1" as const };
      const transport = {
        "Connect over HTTP/1.1": () => createConnectTransport(common),
        gRPC: () => createGrpcTransport({ baseUrl: node.url }),
        "gRPC-Web": () => createGrpcWebTransport(common),
        JSON: () => createConnectTransport({ ...common, useBinaryFormat: false }),
      }[protocol]();
      const runId = await node.newRun();
      const watch = new WatchClient(createClient(RunService, transport), runId);
      await watch.when("the run", () => watch.run);
      const [call = ""] = await node.openIn(runId, IDLE);
      await watch.whenIn(call, "queued");
      await node.runs.endRun({ runId });
      expect(await watch.end()).toBe("ok");
      expect(watch.states.get(call)).toEqual(["queued", "canceled"]);
    },
  );
});

describe("over two nodes, under load,", () => {
  let other: TestNode;
  beforeAll(async () => {
    other = await TestNode.start(it.database);
    for (const { exchange } of [it.node, other]) exchange.hints.othersAlive = true;
  });
  afterAll(() => other.stop());

  /** Opens calls that end in all ways, on both nodes at once. */
  async function load(clients: readonly Trunkline[], runId: string, count: number): Promise<void> {
    await Promise.allSettled(
      Array.from({ length: count }, async (_, index) => {
        await somewhereWithin(400);
        const run = clients[index % clients.length]!.runs.open(runId);
        await run.call("any", { index }, { policy: { backoff: { initial: "5ms" } } });
      }),
    );
  }

  test("folding what was told over many cuts gives the calls as they are in the end, and no stream repeats", async () => {
    const nodes = [it.node, other];
    const clients = nodes.map(({ url }) => new Trunkline({ url, onWarning: () => undefined }));
    const handler = async (
      input: unknown,
      context: Parameters<Parameters<Trunkline["worker"]>[0]["tools"][string]>[1],
    ): Promise<unknown> => {
      const { index } = input as { index: number };
      await somewhereWithin(30);
      if (index % 5 === 0 && context.attempt < 3) throw new HostToolError("again", { retryable: true });
      if (index % 7 === 0) throw new HostToolError("no");
      if (index % 3 === 0) {
        const deferred = await context.defer();
        clients[1]!.tasks.complete(deferred.token, 1).catch(() => undefined);
        return deferred;
      }
      return { index };
    };
    const workers = clients.map((client) =>
      client.worker({ tools: { any: handler }, concurrency: 20, onError: () => undefined }),
    );
    const run = await clients[0]!.runs.create();
    const folded = new Map<string, Call>();
    const loading = new AbortController();
    let cuts = 0;
    const steady = nodes.map(({ runs }) => new WatchClient(runs, run.id));
    const cutting = (async () => {
      for (let cursor = ""; ;) {
        const watch = new WatchClient(nodes[cuts % 2]!.runs, run.id, cursor);
        if (!loading.signal.aborted) {
          await somewhereWithin(80);
          await watch.cut();
        } else expect(await watch.end()).toBe("ok");
        expect(watch.repeats).toEqual([]);
        for (const [id, call] of watch.calls) folded.set(id, call);
        if (watch.cursor !== "") ({ cursor } = watch);
        if (watch.ended === "ok") return;
        cuts++;
      }
    })();
    await load(clients, run.id, 80);
    await run.end();
    loading.abort();
    await cutting;
    const expected = await listed(it.node, run.id);
    expect(expected.size).toBe(80);
    expect(folded).toEqual(expected);
    for (const watch of steady) {
      expect(await watch.end()).toBe("ok");
      expect(watch.calls).toEqual(expected);
      expect(watch.repeats).toEqual([]);
    }
    expect(cuts).toBeGreaterThan(2);
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(clients.map((client) => client.close()));
  });
});

describe("who may watch:", () => {
  const ROOT = "root-key-of-the-test";
  const guarded = useNode({ rootKey: ROOT });

  function clientsOf(credential: string) {
    const show: Interceptor = (next) => (request) => {
      request.header.set("authorization", `Bearer ${credential}`);
      return next(request);
    };
    const transport = createGrpcTransport({ baseUrl: guarded.node.url, interceptors: [show] });
    return { admin: createClient(AdminService, transport), runs: createClient(RunService, transport) };
  }

  test("a token of one end user, or of one run, watches no other, and is cut off when it is revoked (I7)", async () => {
    const root = clientsOf(ROOT);
    const scopes = [KeyScope.HARNESS];
    const [mine, second, foreign] = await Promise.all(
      ["ada", "ada", "eve"].map(
        async (namespace) => (await root.runs.createRun({ spec: { namespace } })).run!.id,
      ),
    );
    const ofRun = await root.admin.createToken({ namespace: "ada", scopes, runId: mine! });
    const ofAda = await root.admin.createToken({ namespace: "ada", scopes });
    const { runs } = clientsOf(ofRun.token);
    for (const runId of [second, foreign])
      expect(await new WatchClient(runs, runId!).end()).toBe("NOT_FOUND");
    expect(await new WatchClient(clientsOf(ofAda.token).runs, foreign!).end()).toBe("NOT_FOUND");
    const watches = [new WatchClient(runs, mine!), new WatchClient(clientsOf(ofAda.token).runs, second!)];
    for (const watch of watches) await watch.when("the run", () => watch.run);
    const { admin } = clientsOf(ROOT);
    for (const { tokenId } of [ofRun, ofAda]) await admin.revokeToken({ tokenId });
    for (const watch of watches) expect(await watch.end()).toBe("UNAUTHENTICATED");
    expect(guarded.node.exchange.watchers.size).toBe(0);
  });
});

test("a node that shuts down sends its watchers elsewhere", async () => {
  const node = await TestNode.start(it.database);
  const runId = await node.newRun();
  const watch = new WatchClient(node.runs, runId);
  await watch.when("the run", () => watch.run);
  node.deps.streams.shutDown(1_000);
  expect(await watch.end()).toBe("UNAVAILABLE");
  expect(await new WatchClient(node.runs, runId).end()).toBe("UNAVAILABLE");
  await node.stop();
});
