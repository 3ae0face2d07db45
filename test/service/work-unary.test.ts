import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { FailureKind, PolicyMode } from "@trunkline/proto/model";
import { describe, expect, test } from "vitest";
import { postJson } from "../support/connect-json.js";
import { throughout, until } from "../support/until.js";
import { TestNode, useNode } from "./node.js";
import { PollClient, reasonOf, refusal, standings } from "./poll-client.js";
import { newHello, WorkClient } from "./raw-stream.js";

const INTERVAL_MS = 200;
const it = useNode({ heartbeatIntervalMs: INTERVAL_MS });

const AT_MOST_ONCE = { mode: PolicyMode.AT_MOST_ONCE };
const SECRET = "s".repeat(43);
/** A tool that no other test serves. */
let tools = 0;
const newTool = (): string => `tool-${++tools}`;

const row = async (
  callId: string,
): Promise<{ state: string; spent: number; attempt: number; claim_accepted: boolean }> => {
  const { rows } = await it.database
    .pool()
    .query(
      "SELECT state, spent, attempt, claim_accepted FROM calls WHERE run_id = $1 AND seq = $2",
      callId.split("/"),
    );
  return rows[0] ?? expect.fail(`there is no call ${callId}`);
};

/** Lets a session look as if it had been silent for that long. */
async function silence(sessionId: string, ms: number): Promise<void> {
  const pool = it.database.pool();
  await pool.query(
    "UPDATE sessions SET last_heard_at = last_heard_at - $2 * interval '1 millisecond' WHERE session_id = $1",
    [sessionId, ms],
  );
  await pool.query(
    "UPDATE calls SET claimed_at = claimed_at - $2 * interval '1 millisecond' WHERE session = (SELECT id FROM sessions WHERE session_id = $1)",
    [sessionId, ms],
  );
  await pool.query("UPDATE lease_floor SET floor_at = floor_at - $1 * interval '1 millisecond'", [ms]);
}

/** A worker of a tool of its own that holds a claim of it. */
async function holding(options: { policy?: object; slots?: number } = {}) {
  const { policy, slots = 10 } = options;
  const tool = newTool();
  const worker = new PollClient(it.node.url, { tools: [tool], slots });
  const callId = await it.node.openOne({ tool, ...(policy === undefined ? {} : { policy }) });
  return { tool, worker, callId, claim: await worker.claim() };
}

const nowhere = (sessionId: string | undefined): boolean =>
  [...it.node.exchange.sessions.all()].every(({ facts }) => facts.sessionId !== sessionId);

describe("ClaimCalls", () => {
  test("answers with the welcome and what is queued, at once", async () => {
    const tool = newTool();
    const ids = await it.node.open({ tool }, { tool });
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const { welcome, claims } = await worker.poll(0);
    expect(welcome).toMatchObject({
      node: it.node.exchange.nodeId,
      heartbeatInterval: durationFromMs(INTERVAL_MS),
      maxResultBytes: 1024 * 1024,
    });
    expect(claims.map(({ callId }) => callId)).toEqual(ids);
    expect(nowhere(worker.hello.sessionId)).toBe(true);
  });

  test("waits for a call that is opened later, and gives it at once", async () => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const claimed = worker.claim(20_000);
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    const callId = await it.node.openOne({ tool });
    const openedAt = performance.now();
    expect(await claimed).toMatchObject({ callId, attempt: 1 });
    expect(performance.now() - openedAt).toBeLessThan(1_000);
  });

  test("that finds nothing in its time says so, and leaves nothing behind", async () => {
    const worker = new PollClient(it.node.url, { tools: [newTool()] });
    expect(await worker.poll(50)).toMatchObject({ claims: [], welcome: { verdicts: [] } });
    expect(nowhere(worker.hello.sessionId)).toBe(true);
  });

  test("never brings more claims than it has slots, and without slots none, at once (I9)", async () => {
    const tool = newTool();
    await it.node.open({ tool }, { tool }, { tool }, { tool }, { tool });
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const first = await worker.poll(1_000, [], { slots: 2 });
    expect(first.claims).toHaveLength(2);
    expect((await worker.poll(20_000, first.claims, { slots: 0 })).claims).toEqual([]);
    const second = await worker.poll(1_000, first.claims, { slots: 2 });
    expect(second.claims).toHaveLength(2);
    expect(standings(second)).toEqual(
      Object.fromEntries(first.claims.map(({ claimId }) => [claimId, "KEPT"])),
    );
  });

  test("with the claims of a response that got lost offers them again, unspent", async () => {
    const { worker, callId, claim } = await holding();
    expect(await row(callId)).toMatchObject({ attempt: 1, spent: 1 });
    const again = await worker.claim();
    expect(again).toMatchObject({ callId, attempt: 2 });
    expect(await row(callId)).toMatchObject({ state: "claimed", attempt: 2, spent: 1 });
    expect(await worker.beat([claim])).toMatchObject({ lost: [claim.claimId] });
  });

  test("by whose client has gone takes no call", async () => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const gone = new AbortController();
    const poll = worker.poll(20_000, [], { signal: gone.signal }).catch(() => "gone");
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    gone.abort();
    expect(await poll).toBe("gone");
    await until("the poll is over", () => nowhere(worker.hello.sessionId));
    const callId = await it.node.openOne({ tool });
    expect(await row(callId)).toMatchObject({ state: "queued", attempt: 0 });
    expect(it.node.faults).toEqual([]);
  });

  test("of a session that polls already ends the older one with SUPERSEDED", async () => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const older = reasonOf(worker.poll(20_000));
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    const newer = worker.claim(20_000);
    expect(await older).toBe("SUPERSEDED");
    const callId = await it.node.openOne({ tool });
    expect(await newer).toMatchObject({ callId, attempt: 1 });
  });

  test("that was held up until a later one was taken is refused, and gives nothing back", async () => {
    const { worker, claim } = await holding();
    await worker.rpc.claimCalls({
      hello: { ...worker.naming(claim), slots: 0, number: 2n },
    });
    const late = worker.rpc.claimCalls({ hello: { ...worker.hello, slots: 0, number: 1n } });
    expect(await reasonOf(late)).toBe("SUPERSEDED");
    expect(await worker.beat([claim])).toMatchObject({ lost: [] });
  });

  test("brings no more than a client takes in one message; the rest is for the next, unspent (B23)", async () => {
    const tool = newTool();
    const inputJson = JSON.stringify("x".repeat(1_000_000));
    const spec = { tool, inputJson };
    const runId = await it.node.newRun();
    const ids = [
      ...(await it.node.openIn(runId, spec, spec, spec)),
      ...(await it.node.openIn(runId, spec, spec, spec)),
    ];
    const transport = createGrpcTransport({ baseUrl: it.node.url, readMaxBytes: 4 * 1024 * 1024 });
    const worker = new PollClient(it.node.url, { tools: [tool] }, transport);
    const { claims } = await worker.poll(5_000);
    expect(claims.length).toBeLessThan(ids.length);
    const rest = await worker.poll(5_000, claims);
    const all = [...claims, ...rest.claims].map(({ callId }) => callId);
    expect([...all].sort()).toEqual([...ids].sort());
    for (const callId of ids) expect((await row(callId)).spent).toBe(1);
  });

  test.each([
    ["no hello", {}, "INVALID_FIELD"],
    ["a hello without tools", { hello: newHello({ tools: [] }) }, "INVALID_FIELD"],
    ["a wait above the limit", { hello: newHello(), wait: durationFromMs(60_001) }, "INVALID_FIELD"],
    ["too many slots", { hello: newHello({ slots: 10_001 }) }, "LIMIT_EXCEEDED"],
  ])("with %s is refused", async (_what, request, reason) => {
    expect(await reasonOf(new PollClient(it.node.url).rpc.claimCalls(request))).toBe(reason);
  });

  test("takes its turns with a stream of the same tool", async () => {
    const tool = newTool();
    const stream = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 100 }));
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const poll = worker.poll(20_000);
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    await it.node.open({ tool }, { tool });
    expect((await poll).claims).toHaveLength(1);
    await stream.when("the other one", () => stream.claims.length === 1);
    await stream.close();
  });
});

describe("a session without a stream", () => {
  test("keeps what it holds between polls: only its heartbeat timeout takes it (I6)", async () => {
    const { worker, callId, claim } = await holding();
    // Longer than an unaccepted claim outlives its stream, and than three intervals.
    await throughout(2_200, async () => expect((await row(callId)).state).toBe("claimed"));
    expect(await worker.beat([claim])).toMatchObject({ lost: [] });
    await silence(worker.who.sessionId, 59_000);
    await throughout(300, async () => expect((await row(callId)).state).toBe("claimed"));
    await silence(worker.who.sessionId, 59_000);
    await until("the lease has ended", async () => (await row(callId)).state === "queued");
    expect(await worker.beat([claim])).toMatchObject({ lost: [claim.claimId] });
    // It lapsed, and nobody else has it: its answer still counts.
    expect(refusal(await worker.answer(claim, "1"))).toBeUndefined();
    expect((await row(callId)).state).toBe("succeeded");
  });

  test("that is not heard of again queues an unaccepted at_most_once call, unspent (I3)", async () => {
    const { worker, callId } = await holding({ policy: AT_MOST_ONCE });
    await silence(worker.who.sessionId, 61_000);
    await until("the lease has ended", async () => (await row(callId)).state === "queued");
    expect(await row(callId)).toMatchObject({ spent: 0, attempt: 1 });
  });

  test("lives by any of its requests", async () => {
    const { worker, callId, claim } = await holding();
    const requests: (() => Promise<unknown>)[] = [
      () => worker.beat([claim]),
      () => worker.answer({ callId: claim.callId, claimId: "another" }, "1"),
      () => worker.defer({ callId: claim.callId, claimId: "another", secret: SECRET }),
      () => worker.release({ callId: claim.callId, claimId: "another" }),
      () => worker.poll(0, [claim], { slots: 0 }),
    ];
    for (const request of requests) {
      await silence(worker.who.sessionId, 50_000);
      await request();
      await it.database
        .pool()
        .query("UPDATE calls SET claimed_at = claimed_at - interval '100 s' WHERE run_id = $1", [
          callId.split("/")[0],
        ]);
    }
    expect(await worker.beat([claim])).toMatchObject({ lost: [] });
    expect((await row(callId)).state).toBe("claimed");
  });

  test("is taken over by another process, which then gets its calls; the old one is told", async () => {
    const { worker, callId, claim, tool } = await holding();
    await worker.beat([claim]);
    const other = new PollClient(it.node.url, { sessionId: worker.who.sessionId, tools: [tool] });
    expect(await other.claim()).toMatchObject({ callId, attempt: 2 });
    expect(await worker.beat([claim])).toEqual(expect.objectContaining({ lost: [claim.claimId] }));
    expect(refusal(await worker.answer(claim, "1"))).toBe("CLAIM_LOST");
  });

  test("can be polled at one node, and heard and answered at another", async () => {
    const other = await TestNode.start(it.database, { heartbeatIntervalMs: INTERVAL_MS });
    const { worker, callId, claim } = await holding({ policy: AT_MOST_ONCE });
    const there = new PollClient(other.url, worker.hello);
    expect(await there.beat([claim])).toMatchObject({ confirmed: [claim.claimId], lost: [] });
    expect(standings(await there.poll(0, [claim]))).toEqual({ [claim.claimId]: "CONFIRMED" });
    // A poll here, while the answer goes there.
    const poll = worker.poll(700, [claim]);
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    expect(refusal(await there.answer(claim, "1"))).toBeUndefined();
    expect((await poll).claims).toEqual([]);
    expect(await row(callId)).toMatchObject({ state: "succeeded", attempt: 1, spent: 1 });
    await other.stop();
    expect([...it.node.faults, ...other.faults]).toEqual([]);
  });

  test("that polls at another node has its poll here ended within an interval", async () => {
    const other = await TestNode.start(it.database, { heartbeatIntervalMs: INTERVAL_MS });
    const worker = new PollClient(it.node.url, { tools: [newTool()] });
    const here = reasonOf(worker.poll(20_000));
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    const there = new PollClient(other.url, worker.hello).poll(1_000);
    expect(await here).toBe("SUPERSEDED");
    expect((await there).claims).toEqual([]);
    await other.stop();
  });

  test("can open a stream, and poll again, and holds on to its claims", async () => {
    const { worker, callId, claim, tool } = await holding();
    const poll = reasonOf(worker.poll(20_000, [claim]));
    await until("the poll waits", () => !nowhere(worker.hello.sessionId));
    const stream = await WorkClient.open(it.node.url, worker.naming(claim));
    expect(await poll).toBe("SUPERSEDED");
    expect(await stream.verdicts()).toEqual({ [claim.claimId]: "KEPT" });
    const next = await worker.poll(50, [claim]);
    expect(await stream.end()).toBe("SUPERSEDED");
    expect(standings(next)).toEqual({ [claim.claimId]: "KEPT" });
    const another = await it.node.openOne({ tool });
    expect(await worker.claim(5_000, [claim])).toMatchObject({ callId: another });
    expect(refusal(await worker.answer(claim, "1"))).toBeUndefined();
    expect((await row(callId)).state).toBe("succeeded");
  });
});

describe("Heartbeat", () => {
  test("stores the acceptance of an at_most_once claim that it names, and confirms it each time (I3)", async () => {
    const { worker, callId, claim } = await holding({ policy: AT_MOST_ONCE });
    expect(claim.confirm).toBe(true);
    expect(await row(callId)).toMatchObject({ claim_accepted: false, spent: 0 });
    for (let times = 0; times < 2; times++) {
      expect(await worker.beat([claim])).toMatchObject({ confirmed: [claim.claimId], lost: [] });
    }
    expect(await row(callId)).toMatchObject({ claim_accepted: true, spent: 1 });
  });

  test("tells what is not held any more: canceled, answered, never held", async () => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] });
    const ids = await it.node.open({ tool }, { tool }, { tool });
    const { claims } = await worker.poll(1_000);
    const [canceled, answered, held] = ids.map((id) => claims.find(({ callId }) => callId === id)!);
    await it.node.calls.cancelCall({ call: { callId: canceled!.callId } });
    await worker.answer(answered!, "1");
    const { lost } = await worker.beat([canceled!, answered!, held!, { callId: "", claimId: "none" }]);
    expect([...lost].sort()).toEqual([canceled!.claimId, answered!.claimId, "none"].sort());
  });

  test("that does not name a claim leaves it alone: it may have overtaken the response with the claim", async () => {
    const { worker, callId, claim } = await holding();
    await worker.beat([claim]);
    await worker.beat([]);
    expect((await row(callId)).state).toBe("claimed");
  });

  test("stores progress, and leaves out what is no JSON", async () => {
    const { worker, callId, claim } = await holding();
    await worker.beat([claim], [{ claimId: claim.claimId, progressJson: '{"done":1}' }]);
    await until("progress is stored", async () => (await it.node.call(callId)).progressJson === '{"done":1}');
    await worker.beat([claim], [{ claimId: claim.claimId, progressJson: "{" }]);
    expect((await it.node.call(callId)).progressJson).toBe('{"done":1}');
  });

  test("of a session that nobody knows is refused with NOT_FOUND, and one without an id with INVALID_FIELD", async () => {
    const worker = new PollClient(it.node.url);
    expect(await reasonOf(worker.beat([]))).toBe("NOT_FOUND");
    expect(await reasonOf(worker.rpc.heartbeat({}))).toBe("INVALID_FIELD");
  });
});

describe("AnswerCalls, DeferCall and ReleaseCalls", () => {
  test("acknowledge each item for itself, in order; a repeat is done (I1, I11)", async () => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] });
    await it.node.open({ tool }, { tool }, { tool });
    const { claims } = await worker.poll(1_000);
    const [first, second, third] = claims;
    const result = (value: string) => ({ case: "resultJson" as const, value });
    const answers = [
      { ...ids(first!), outcome: result('{"n": 9007199254740993}') },
      { ...ids(second!), claimId: "none", outcome: result("1") },
      { callId: "no call", claimId: "c", outcome: result("1") },
      { ...ids(third!), outcome: result("{") },
    ];
    const expected = [
      [first!.claimId, undefined],
      ["none", "CLAIM_LOST"],
      ["c", "NOT_FOUND"],
      [third!.claimId, undefined],
    ];
    for (let times = 0; times < 2; times++) {
      const { acks } = await worker.rpc.answerCalls({ ...worker.who, answers });
      expect(acks.map((ack) => [ack.claimId, refusal(ack)])).toEqual(expected);
    }
    expect((await it.node.call(first!.callId)).resultJson).toBe('{"n": 9007199254740993}');
    expect((await it.node.call(third!.callId)).failure?.kind).toBe(FailureKind.INVALID_ANSWER);
    const other = { case: "resultJson" as const, value: "other" };
    expect(refusal(await worker.answer(first!, other))).toBe("CLAIM_LOST");
  });

  test("hand a claim back for a token, and again with the same secret", async () => {
    const { worker, callId, claim } = await holding();
    for (let times = 0; times < 2; times++) {
      const ack = await worker.defer({ ...ids(claim), secret: SECRET, timeout: durationFromMs(60_000) });
      expect(refusal(ack)).toBeUndefined();
      expect(ack?.deferred).toMatchObject({ token: "", expiresAt: expect.any(Object) });
    }
    await it.node.tasks.completeTask({ token: `${callId}.1.${SECRET}`, resultJson: "7" });
    expect((await it.node.call(callId)).resultJson).toBe("7");
  });

  test("make the token of a deferral without a secret", async () => {
    const { worker, callId, claim } = await holding();
    const ack = await worker.defer(ids(claim));
    await it.node.tasks.completeTask({ token: ack?.deferred?.token ?? "", resultJson: "8" });
    expect((await it.node.call(callId)).resultJson).toBe("8");
    expect(await worker.defer({ ...ids(claim), secret: "short" })).toMatchObject({
      problem: { message: expect.stringContaining("secret is malformed") },
    });
  });

  test("hand back what was not started: it is offered again, unspent", async () => {
    const { worker, callId, claim } = await holding({ slots: 1 });
    for (let times = 0; times < 2; times++) {
      expect((await worker.release(claim)).map(refusal)).toEqual([undefined]);
    }
    expect(await row(callId)).toMatchObject({ state: "queued", spent: 0 });
    expect(await worker.claim()).toMatchObject({ callId, attempt: 2 });
  });

  test("are refused without an item", async () => {
    const worker = new PollClient(it.node.url);
    const { rpc, who } = worker;
    for (const request of [rpc.answerCalls(who), rpc.deferCall(who), rpc.releaseCalls(who)]) {
      expect(await reasonOf(request)).toBe("INVALID_FIELD");
    }
  });
});

describe("when a node shuts down", () => {
  test("its polls end at once, and so does one that comes then", async () => {
    const node = await TestNode.start(it.database, { heartbeatIntervalMs: INTERVAL_MS });
    const worker = new PollClient(node.url, { tools: [newTool()] });
    const poll = reasonOf(worker.poll(20_000));
    await until("the poll waits", () => [...node.exchange.sessions.all()].length === 1);
    node.deps.streams.shutDown(5_000);
    expect(await poll).toBe("UNAVAILABLE");
    expect(await reasonOf(worker.poll(20_000))).toBe("UNAVAILABLE");
    await node.stop();
    expect(node.faults).toEqual([]);
  });

  test("a poll ends with what was claimed for it", async () => {
    const node = await TestNode.start(it.database, { heartbeatIntervalMs: INTERVAL_MS });
    const tool = newTool();
    const worker = new PollClient(node.url, { tools: [tool] });
    const runId = await node.newRun();
    const poll = worker.claim(20_000);
    const session = await until("the poll waits", () => [...node.exchange.sessions.all()][0]);
    await until("it has looked at its queue", () => session.credit === 10 && session.assigned === 0);
    const lock = await it.database.pool().connect();
    await lock.query("BEGIN");
    await lock.query("SELECT FROM runs WHERE id = $1 FOR UPDATE", [runId]);
    // The queue is known to be empty, so that the call is given to the poll at once.
    await node.exchange.dispatch.poll();
    const opening = node.openIn(runId, { tool });
    await until("the call is being written", () => session.assigned === 1);
    node.deps.streams.shutDown(5_000);
    await lock.query("COMMIT");
    lock.release();
    const [callId] = await opening;
    expect(await poll).toMatchObject({ callId, attempt: 1 });
    await node.stop();
  });
});

const TRANSPORTS: [string, (baseUrl: string) => Transport][] = [
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  [
    "Connect with JSON",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  ],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC-Web", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
];

describe("by every protocol", () => {
  test.each(TRANSPORTS)("a call is claimed, confirmed and answered over %s", async (_name, transport) => {
    const tool = newTool();
    const worker = new PollClient(it.node.url, { tools: [tool] }, transport(it.node.url));
    const callId = await it.node.openOne({ tool, policy: AT_MOST_ONCE, inputJson: "9007199254740993" });
    const claim = await worker.claim();
    expect(claim).toMatchObject({ callId, inputJson: "9007199254740993" });
    expect((await worker.beat([claim])).confirmed).toEqual([claim.claimId]);
    expect(refusal(await worker.answer(claim, "1e400"))).toBeUndefined();
    expect((await it.node.call(callId)).resultJson).toBe("1e400");
  });

  test("a call is worked on with nothing but curl", async () => {
    const tool = newTool();
    const callId = await it.node.openOne({ tool });
    const post = async (rpc: string, body: object) =>
      (await postJson(it.node.url, `WorkerService/${rpc}`, body)).body;
    const who = { sessionId: `curl-${tool}`, nonce: "0123456789abcdef" };
    const { claims } = await post("ClaimCalls", { hello: { ...who, tools: [tool], slots: 1 }, wait: "5s" });
    expect(claims).toMatchObject([{ callId, tool, attempt: 1 }]);
    const [{ claimId }] = claims;
    expect(await post("Heartbeat", { ...who, claims: [{ callId, claimId }] })).toEqual({});
    const answers = [{ callId, claimId, resultJson: '{"by":"hand"}' }];
    expect(await post("AnswerCalls", { ...who, answers })).toEqual({ acks: [{ claimId }] });
    expect((await it.node.call(callId)).resultJson).toBe('{"by":"hand"}');
  });
});

function ids({ callId, claimId }: { callId: string; claimId: string }) {
  return { callId, claimId };
}
