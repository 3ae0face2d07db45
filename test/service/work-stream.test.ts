import { randomBytes } from "node:crypto";
import { connect } from "node:http2";
import { once } from "node:events";
import { PolicyMode } from "@trunkline/proto/model";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RevokeReason } from "@trunkline/proto/worker";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TcpProxy } from "../support/tcp-proxy.js";
import { throughout, until } from "../support/until.js";
import { useNode } from "./node.js";
import { newHello, WorkClient, type Held } from "./raw-stream.js";

const INTERVAL_MS = 200;
const it = useNode({ heartbeatIntervalMs: INTERVAL_MS });

const AT_MOST_ONCE = { mode: PolicyMode.AT_MOST_ONCE };
/** A tool that no other test serves. */
let tools = 0;
const newTool = (): string => `tool-${++tools}`;

const state = async (callId: string): Promise<string> => {
  const { rows } = await it.database
    .pool()
    .query<{ state: string }>("SELECT state FROM calls WHERE run_id = $1 AND seq = $2", callId.split("/"));
  return rows[0]?.state ?? "missing";
};

const row = async (
  callId: string,
): Promise<{ state: string; spent: number; attempt: number; offers: number }> => {
  const { rows } = await it.database
    .pool()
    .query(
      "SELECT state, spent, attempt, offers FROM calls WHERE run_id = $1 AND seq = $2",
      callId.split("/"),
    );
  return rows[0] ?? expect.fail(`there is no call ${callId}`);
};

const untilState = (callId: string, wanted: string): Promise<unknown> =>
  until(`call ${callId} is ${wanted}`, async () => (await state(callId)) === wanted);

/** A worker of a tool of its own, with a claim of it. */
async function holding(options: { accept?: boolean; policy?: object; hello?: object } = {}) {
  const tool = newTool();
  const hello = newHello({ tools: [tool], ...options.hello });
  const worker = await WorkClient.open(it.node.url, hello);
  const callId = await it.node.openOne({
    tool,
    ...(options.policy === undefined ? {} : { policy: options.policy }),
  });
  const claim = await worker.claimOf(callId);
  if (options.accept === true) worker.accept(claim);
  return { tool, hello, worker, callId, claim };
}

/** Resolves when the server has noted that a session's stream is over. */
const untilDetached = (sessionId: string): Promise<unknown> =>
  until("the session is detached", async () => {
    const { rows } = await it.database
      .pool()
      .query("SELECT FROM sessions WHERE session_id = $1 AND state <> 'attached'", [sessionId]);
    return rows.length > 0;
  });

describe("hello", () => {
  test("a hello gets a welcome with the node, the interval and the limits, in the first frame", async () => {
    const worker = await WorkClient.open(it.node.url);
    const welcome = await worker.welcomed();
    expect(welcome).toMatchObject({
      node: it.node.exchange.nodeId,
      heartbeatInterval: durationFromMs(INTERVAL_MS),
      maxResultBytes: 1024 * 1024,
      maxFrameBytes: 4 * 1024 * 1024,
    });
    await worker.close();
  });

  test("a first frame without hello ends the stream with PROTOCOL_VIOLATION", async () => {
    const worker = new WorkClient(it.node.url);
    worker.send({ grant: 1 });
    expect(await worker.end()).toBe("PROTOCOL_VIOLATION");
  });

  test("a second hello on a stream ends it with PROTOCOL_VIOLATION", async () => {
    const hello = newHello();
    const worker = await WorkClient.open(it.node.url, hello);
    worker.send({ hello });
    expect(await worker.end()).toBe("PROTOCOL_VIOLATION");
  });

  test.each([
    ["a short nonce", { nonce: "0123456789abcde" }],
    ["no tools", { tools: [] }],
    ["a tool name outside the grammar", { tools: ["a b"] }],
    ["no session id", { sessionId: "" }],
    ["a number that no signed column holds", { number: 2n ** 64n - 1n }],
    ["a number that loses its last digits", { number: 2n ** 53n }],
  ])("%s is refused with INVALID_FIELD", async (_what, hello) => {
    const worker = new WorkClient(it.node.url);
    worker.send({ hello: newHello(hello) });
    expect(await worker.end()).toBe("INVALID_FIELD");
  });

  test("more slots than the limit are refused with LIMIT_EXCEEDED", async () => {
    const worker = new WorkClient(it.node.url);
    worker.send({ hello: newHello({ slots: 10_001 }) });
    expect(await worker.end()).toBe("LIMIT_EXCEEDED");
  });

  test("a stream that never says hello is ended after three intervals", async () => {
    const worker = new WorkClient(it.node.url);
    expect(await worker.end()).toBe("UNAVAILABLE");
  });

  test("another process is refused while the session has an open stream", async () => {
    const hello = newHello();
    const worker = await WorkClient.open(it.node.url, hello);
    const other = new WorkClient(it.node.url);
    other.send({ hello: newHello({ sessionId: hello.sessionId! }) });
    expect(await other.end()).toBe("SESSION_IN_USE");
    await worker.beat();
    await worker.close();
  });

  test("another process takes a closed session over, and the old one's claims are lost", async () => {
    const { worker, hello, callId, claim, tool } = await holding({ accept: true });
    await worker.beat(claim);
    await worker.close();
    await untilDetached(hello.sessionId!);
    const other = await WorkClient.open(
      it.node.url,
      newHello({ sessionId: hello.sessionId!, tools: [tool] }),
    );
    const again = await other.claimOf(callId, 2);
    expect(again).toMatchObject({ attempt: 2, callId });
    expect((await it.node.call(callId)).attempts).toHaveLength(1);
    await other.close();
  });

  test("a take-over loses an accepted at_most_once claim, and queues one that was never accepted", async () => {
    const tool = newTool();
    const hello = newHello({ tools: [tool] });
    const worker = await WorkClient.open(it.node.url, hello);
    const [accepted, unaccepted] = await it.node.open(
      { tool, policy: AT_MOST_ONCE },
      { tool, policy: AT_MOST_ONCE },
    );
    const claim = await worker.claimOf(accepted!);
    await worker.claimOf(unaccepted!);
    worker.accept(claim);
    await worker.when("a confirmation", () => worker.confirmed.includes(claim.claimId));
    await worker.close();
    await untilDetached(hello.sessionId!);
    const other = await WorkClient.open(
      it.node.url,
      newHello({ sessionId: hello.sessionId!, tools: [tool] }),
    );
    expect((await other.claimOf(unaccepted!, 2)).attempt).toBe(2);
    expect((await it.node.call(accepted!)).failure).toMatchObject({ outcomeUnknown: true });
    expect((await row(unaccepted!)).spent).toBe(0);
    await other.close();
  });

  test("a second stream of the same process takes the session over, and the first one ends SUPERSEDED", async () => {
    const { worker, hello, callId, claim } = await holding({ accept: true });
    const next = await WorkClient.open(it.node.url, again(hello, claim));
    expect(await worker.end()).toBe("SUPERSEDED");
    expect(await next.verdicts()).toEqual({ [claim.claimId]: "KEPT" });
    next.answer(claim, "1");
    expect(await next.refusal(claim.claimId)).toBeUndefined();
    expect(await state(callId)).toBe("succeeded");
    await next.close();
  });

  test("hellos of one session at once leave one stream, which works", async () => {
    const tool = newTool();
    const hello = newHello({ tools: [tool] });
    const streams = Array.from({ length: 6 }, () => {
      const stream = new WorkClient(it.node.url);
      stream.send({ hello });
      return stream;
    });
    await until("one stream is left", () => streams.filter(({ ended }) => ended === undefined).length === 1);
    const left = streams.find(({ ended }) => ended === undefined)!;
    expect(streams.filter(({ ended }) => ended === "SUPERSEDED")).toHaveLength(5);
    await left.claimOf(await it.node.openOne({ tool }));
    await left.close();
  });
});

describe("verdicts", () => {
  test("a hello that names claims gets each one's standing", async () => {
    const tool = newTool();
    const hello = newHello({ tools: [tool] });
    const worker = await WorkClient.open(it.node.url, hello);
    const ids = await it.node.open({ tool }, { tool, policy: AT_MOST_ONCE }, { tool }, { tool }, { tool });
    const claims = await Promise.all(ids.map((id) => worker.claimOf(id)));
    const [kept, confirmed, deferred, answered, lost] = claims;
    worker.accept(...claims);
    worker.send({ deferrals: [{ ...idsOf(deferred!), secret: "s".repeat(43) }] });
    worker.answer(answered!, "1");
    await Promise.all([worker.ackOf(deferred!.claimId), worker.ackOf(answered!.claimId)]);
    await it.node.calls.cancelCall({ call: { callId: lost!.callId } });
    await worker.close();
    const next = await WorkClient.open(it.node.url, again(hello, ...claims));
    expect(await next.verdicts()).toEqual({
      [kept!.claimId]: "KEPT",
      [confirmed!.claimId]: "CONFIRMED",
      [deferred!.claimId]: "DEFERRED",
      [answered!.claimId]: "ANSWERED",
      [lost!.claimId]: "LOST",
    });
    await next.close();
  });

  test("a claim of a call that cannot be is lost, and the others of its hello are not (I11)", async () => {
    const { worker, hello, claim } = await holding({ accept: true });
    await worker.close();
    const impossible = [
      { callId: "no call", claimId: "c1" },
      { callId: "", claimId: "" },
    ];
    const next = await WorkClient.open(it.node.url, again(hello, ...impossible, claim));
    expect(await next.verdicts()).toEqual({ c1: "LOST", "": "LOST", [claim.claimId]: "KEPT" });
    await next.close();
  });

  test("naming an at_most_once claim that was never accepted accepts it", async () => {
    const { worker, hello, callId, claim } = await holding({ policy: AT_MOST_ONCE });
    await worker.close();
    const next = await WorkClient.open(it.node.url, again(hello, claim));
    expect(await next.verdicts()).toEqual({ [claim.claimId]: "CONFIRMED" });
    expect((await row(callId)).spent).toBe(1);
    await next.close();
  });

  test("a hello of the same process that does not name a claim gives it back, unspent", async () => {
    const { worker, hello, callId } = await holding();
    expect((await row(callId)).spent).toBe(1);
    await worker.close();
    const next = await WorkClient.open(it.node.url, { ...hello, slots: 0 });
    await next.welcomed();
    expect(await row(callId)).toMatchObject({ state: "queued", spent: 0, attempt: 1, offers: 1 });
    next.send({ grant: 1 });
    expect((await next.claimOf(callId, 2)).attempt).toBe(2);
    await next.close();
  });

  test("an accepted at_most_once claim that the hello does not name fails, its outcome unknown", async () => {
    const { worker, hello, callId, claim } = await holding({ accept: true, policy: AT_MOST_ONCE });
    await worker.when("a confirmation", () => worker.confirmed.includes(claim.claimId));
    await worker.close();
    const next = await WorkClient.open(it.node.url, hello);
    expect((await it.node.call(callId)).failure).toMatchObject({ outcomeUnknown: true });
    await next.close();
  });
});

describe("claims and credit", () => {
  test("a worker never gets more claims than it granted (I9)", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.integer({ min: 1, max: 5 }),
            fc.constant("open" as const),
            fc.constant("answer" as const),
          ),
          {
            maxLength: 30,
          },
        ),
        fc.integer({ min: 0, max: 3 }),
        async (steps, slots) => {
          const tool = newTool();
          const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots }));
          const runId = await it.node.newRun();
          let granted = slots;
          let opened = 0;
          let answered = 0;
          for (const step of steps) {
            if (step === "open") {
              await it.node.openIn(runId, { tool }, { tool });
              opened += 2;
            } else if (step === "answer") {
              const claim = worker.claims[answered];
              if (claim === undefined) continue;
              answered++;
              worker.answer(claim, "1");
            } else {
              granted += step;
              worker.send({ grant: step });
            }
            expect(worker.claims.length).toBeLessThanOrEqual(granted);
          }
          const due = Math.min(granted, opened);
          await worker.when("all that was granted", () => worker.claims.length >= due || due === 0);
          await worker.beat(...worker.claims.slice(answered));
          expect(worker.claims).toHaveLength(due);
          expect(new Set(worker.claims.map(({ claimId }) => claimId)).size).toBe(due);
          await worker.close();
        },
      ),
      { numRuns: 15 },
    );
  });

  test("an at_most_once claim is confirmed only after its acceptance is stored", async () => {
    const { worker, callId, claim } = await holding({ policy: AT_MOST_ONCE });
    expect(claim.confirm).toBe(true);
    expect((await row(callId)).spent).toBe(0);
    await worker.beat(claim);
    await worker.when("a confirmation", () => worker.confirmed.includes(claim.claimId));
    expect((await row(callId)).spent).toBe(1);
    await worker.close();
  });

  test("an unaccepted claim goes to another session two seconds after its stream ended", async () => {
    const { worker, callId, tool } = await holding();
    const cutAt = performance.now();
    worker.cut();
    const other = await WorkClient.open(it.node.url, newHello({ tools: [tool] }));
    const again = await keepingAlive(other, () => other.claimOf(callId, 2));
    expect(again.attempt).toBe(2);
    expect(performance.now() - cutAt).toBeGreaterThan(1_900);
    await other.close();
  });

  test("a claim that is never accepted is taken back after three intervals, while heartbeats go on", async () => {
    const { worker, callId, claim } = await holding();
    await keepingAlive(worker, () => worker.revocation(claim.claimId));
    expect((await row(callId)).attempt).toBeGreaterThanOrEqual(1);
    await untilState(callId, "queued");
    await worker.close();
  });

  test("an accepted claim that a heartbeat misses is lost, and the worker is told", async () => {
    const { worker, callId, claim } = await holding({ accept: true, hello: { slots: 1 } });
    await worker.beat();
    const { reason } = await worker.revocation(claim.claimId);
    expect(reason).toBe(RevokeReason.LEASE_LOST);
    expect(await row(callId)).toMatchObject({ state: "queued", spent: 1 });
    await worker.close();
  });

  test("a heartbeat's answer lists the claims that are not held any more", async () => {
    const { worker, claim } = await holding({ accept: true });
    worker.answer(claim, "1");
    await worker.ackOf(claim.claimId);
    expect(await worker.beat(claim, { callId: "", claimId: "nothing" })).toEqual([claim.claimId, "nothing"]);
    await worker.close();
  });

  test("a released claim is offered again, unspent", async () => {
    const { worker, callId, claim, tool } = await holding({ hello: { slots: 1 } });
    worker.send({ releases: [claim.claimId] });
    expect(await worker.refusal(claim.claimId)).toBeUndefined();
    expect(await row(callId)).toMatchObject({ state: "queued", spent: 0 });
    const other = await WorkClient.open(it.node.url, newHello({ tools: [tool] }));
    await other.claimOf(callId, 2);
    await Promise.all([worker.close(), other.close()]);
  });

  test("progress is shown with the call; what is not JSON is left out and harms nothing", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    const { claimId } = claim;
    worker.send({ heartbeat: { claims: [claimId], progress: [{ claimId, progressJson: '{"done":1}' }] } });
    await until("progress is stored", async () => (await it.node.call(callId)).progressJson === '{"done":1}');
    worker.send({ heartbeat: { claims: [claimId], progress: [{ claimId, progressJson: "{" }] } });
    await worker.beat(claim);
    expect((await it.node.call(callId)).progressJson).toBe('{"done":1}');
    await worker.close();
  });

  test("claims with large labels never make a frame above the limit", async () => {
    const tool = newTool();
    const labels = Object.fromEntries(
      Array.from({ length: 32 }, (_, index) => [`${index}`.padEnd(64, "n"), "v".repeat(256)]),
    );
    const runId = await it.node.newRun({ labels });
    await it.node.openIn(runId, ...Array.from({ length: 500 }, () => ({ tool })));
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 500 }));
    await worker.when("all claims", () => worker.claims.length === 500);
    expect(Math.max(...worker.frames.map(({ claims }) => claims.length))).toBeLessThan(400);
    await worker.close();
  });
});

describe("answers and deferrals", () => {
  test("an answer is stored as it was written, digit for digit", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    const result = '{"n": 9007199254740993, "e":1e400,"n":2}';
    worker.answer(claim, result);
    expect(await worker.refusal(claim.claimId)).toBeUndefined();
    expect((await it.node.call(callId)).resultJson).toBe(result);
    await worker.close();
  });

  test.each([
    ["a heartbeat without its claim", AT_MOST_ONCE, { heartbeat: {} }],
    ["a heartbeat without its claim, and a free slot", {}, { heartbeat: {}, grant: 1 }],
    ["a release of its claim", {}, true],
  ])("an answer comes before %s in the same frame", async (_what, policy, rest) => {
    const { worker, callId, claim } = await holding({ accept: true, policy, hello: { slots: 1 } });
    const { claimId } = claim;
    // Named once, the claim is held, its acceptance stored.
    await worker.beat(claim);
    worker.send({
      answers: [{ callId, claimId, outcome: { case: "resultJson", value: "1" } }],
      ...(rest === true ? { releases: [claimId] } : rest),
    });
    expect(await worker.refusal(claimId)).toBeUndefined();
    expect(await row(callId)).toMatchObject({ state: "succeeded", attempt: 1, spent: 1 });
    await worker.close();
  });

  test("a repeat of an answer is done; another answer is CLAIM_LOST and changes nothing (I1)", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    worker.answer(claim, "1");
    worker.answer(claim, "1");
    worker.answer(claim, "2");
    await worker.when("three acks", () => worker.acks.length === 3);
    expect(worker.acks.map(({ problem }) => problem?.message === undefined)).toEqual([true, true, false]);
    expect((await it.node.call(callId)).resultJson).toBe("1");
    await worker.close();
  });

  test.each([
    ["malformed", "{", "INVALID_ANSWER"],
    ["oversized", `"${"x".repeat(1024 * 1024)}"`, "OVERSIZED"],
    ["NUL in text", '"\u0000"', "INVALID_ANSWER"],
  ])("a %s answer fails its call, not the stream", async (_what, result, kind) => {
    const { worker, callId, claim } = await holding({ accept: true });
    const other = await it.node.openOne({ tool: claim.tool });
    const good = await worker.claimOf(other);
    worker.answer(claim, result);
    worker.answer(good, "1");
    expect(await worker.refusal(claim.claimId)).toBeUndefined();
    expect(await worker.refusal(good.claimId)).toBeUndefined();
    const { failure } = await it.node.call(callId);
    expect(failure?.message).toMatch(/^the answer was refused/);
    expect(kind).toBeDefined();
    expect(await state(other)).toBe("succeeded");
    await worker.close();
  });

  test("a bad item in a frame is refused alone (I11)", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    worker.send({
      answers: [
        { callId: "nonsense", claimId: "a", outcome: { case: "resultJson", value: "1" } },
        { ...idsOf(claim), outcome: { case: "resultJson", value: "1" } },
      ],
      releases: ["b"],
      deferrals: [{ callId, claimId: "c", secret: "short" }],
    });
    expect(await worker.refusal("a")).toBe("NOT_FOUND");
    expect(await worker.refusal("b")).toBe("CLAIM_LOST");
    expect(await worker.refusal("c")).toBe("INVALID_FIELD");
    expect(await worker.refusal(claim.claimId)).toBeUndefined();
    await worker.close();
  });

  test("a deferral with the worker's secret makes its token good, and a repeat is done", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    const secret = "a".repeat(43);
    const deferral = { ...idsOf(claim), secret, timeout: durationFromMs(60_000) };
    worker.send({ deferrals: [deferral] });
    const ack = await worker.ackOf(claim.claimId);
    expect(ack.problem).toBeUndefined();
    expect(ack.deferred?.token).toBe("");
    expect(ack.deferred?.expiresAt).toBeDefined();
    worker.send({ deferrals: [deferral] });
    await worker.when("the second ack", () => worker.acks.length === 2);
    expect(worker.acks[1]).toMatchObject({
      claimId: claim.claimId,
      deferred: { expiresAt: ack.deferred?.expiresAt },
    });
    await it.node.tasks.completeTask({ token: `${callId}.1.${secret}`, resultJson: '"done"' });
    expect((await it.node.call(callId)).resultJson).toBe('"done"');
    await worker.close();
  });

  test("a deferral with an empty secret gets a token made by the server", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    worker.send({ deferrals: [idsOf(claim)] });
    const { deferred } = await worker.ackOf(claim.claimId);
    expect(deferred?.token).toMatch(new RegExp(`^${callId}\\.1\\.[A-Za-z0-9_-]{43}$`));
    await it.node.tasks.completeTask({ token: deferred!.token, resultJson: "1" });
    expect(await state(callId)).toBe("succeeded");
    await worker.close();
  });

  test("a deferral's timeout is cut to the run's end, and the ack says so", async () => {
    const { worker, tool } = await holding();
    const runId = await it.node.newRun({ ttl: durationFromMs(3_600_000) });
    const [callId] = await it.node.openIn(runId, { tool });
    const claim = await worker.claimOf(callId!);
    worker.send({ deferrals: [{ ...idsOf(claim), timeout: durationFromMs(30 * 86_400_000) }] });
    const { deferred } = await worker.ackOf(claim.claimId);
    const { run } = await it.node.runs.getRun({ runId });
    expect(deferred).toMatchObject({ cutToRun: true, expiresAt: run!.expiresAt });
    await worker.close();
  });

  test("an answer under a claim that lapsed still counts, and is checked against the output schema", async () => {
    const tool = newTool();
    await it.node.toolsets.putToolset({
      id: tool,
      tools: [{ name: tool, description: "d", inputSchemaJson: "{}", outputSchemaJson: '{"type":"string"}' }],
    });
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 1 }));
    const runId = await it.node.newRun({ toolset: tool });
    const [callId] = await it.node.openIn(runId, { tool });
    const claim = await worker.claimOf(callId!);
    worker.accept(claim);
    await worker.beat();
    await worker.revocation(claim.claimId);
    await untilState(callId!, "queued");
    worker.answer(claim, "1");
    expect(await worker.refusal(claim.claimId)).toBeUndefined();
    expect((await it.node.call(callId!)).failure?.message).toMatch(/^the answer was refused/);
    await worker.close();
  });
});

describe("revocation", () => {
  test.each([
    ["settled", RevokeReason.SETTLED, (callId: string) => it.node.settle(callId, "1")],
    ["canceled", RevokeReason.CANCELED, (callId: string) => it.node.calls.cancelCall({ call: { callId } })],
    [
      "ended with its run",
      RevokeReason.RUN_ENDED,
      (callId: string) => it.node.runs.endRun({ runId: callId.split("/")[0]! }),
    ],
  ])("a claim whose call is %s is revoked with that reason", async (_what, reason, act) => {
    const { worker, callId, claim } = await holding({ accept: true });
    await act(callId);
    expect((await worker.revocation(claim.claimId)).reason).toBe(reason);
    worker.answer(claim, "2");
    expect(await worker.refusal(claim.claimId)).toBe("CLAIM_LOST");
    await worker.close();
  });

  test.each([
    ["attempt", { attemptTimeout: durationFromMs(300) }],
    ["total", { totalTimeout: durationFromMs(300) }],
  ])("the %s timeout revokes the claim, and not before its time", async (_what, policy) => {
    const openedAt = performance.now();
    const { worker, claim } = await holding({ accept: true, policy });
    expect(Number(claim.timeLeft?.nanos)).toBeGreaterThan(0);
    const { reason } = await keepingAlive(worker, () => worker.revocation(claim.claimId), claim);
    expect(reason).toBe(RevokeReason.TIMEOUT);
    expect(performance.now() - openedAt).toBeGreaterThan(300);
    await worker.close();
  });
});

describe("the end of a stream", () => {
  test("drain ends with drained after the last claim, and no claim comes after it", async () => {
    const { worker, callId, claim, tool } = await holding({ accept: true });
    worker.send({ drain: {} });
    await worker.beat(claim);
    const later = await it.node.openOne({ tool });
    expect(worker.frames.some(({ drained }) => drained !== undefined)).toBe(false);
    worker.answer(claim, "1");
    await worker.when("drained", () => worker.frames.some(({ drained }) => drained !== undefined));
    expect(await state(callId)).toBe("succeeded");
    expect(await state(later)).toBe("queued");
    worker.halfClose();
    expect(await worker.end()).toBe("ok");
  });

  test("a worker that leaves at drained has the ack of its last answer by then", async () => {
    const { worker, claim } = await holding({ accept: true });
    worker.send({ drain: {} });
    await worker.beat(claim);
    worker.answer(claim, "1");
    await worker.when("drained", () => worker.frames.some(({ drained }) => drained !== undefined));
    worker.halfClose();
    expect(await worker.end()).toBe("ok");
    const ackedAt = worker.frames.findIndex(({ acks }) => acks.length > 0);
    expect(ackedAt).toBeGreaterThan(0);
    expect(ackedAt).toBeLessThanOrEqual(worker.frames.findIndex(({ drained }) => drained !== undefined));
  });

  test("a worker that closes its half still gets its acks, and the stream ends in order (S03)", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    worker.answer(claim, "1");
    worker.halfClose();
    expect(await worker.end()).toBe("ok");
    expect(worker.acks).toMatchObject([{ claimId: claim.claimId }]);
    expect(await state(callId)).toBe("succeeded");
  });

  test("a retry claim outlives its worker's cut by the grace, and then goes to another", async () => {
    const policy = { detachGrace: durationFromMs(400), heartbeatTimeout: durationFromMs(20_000) };
    const { worker, callId, claim, tool } = await holding({ accept: true, policy });
    await worker.beat(claim);
    worker.cut();
    const cutAt = performance.now();
    const other = await WorkClient.open(it.node.url, newHello({ tools: [tool] }));
    await keepingAlive(other, () => other.claimOf(callId, 2));
    expect(performance.now() - cutAt).toBeGreaterThan(390);
    expect((await it.node.call(callId)).attempts[0]?.failure?.message).toMatch(/stopped answering/);
    await other.close();
  });

  test("an at_most_once claim outlives the grace, and is lost at its heartbeat timeout", async () => {
    const policy = {
      ...AT_MOST_ONCE,
      detachGrace: durationFromMs(100),
      heartbeatTimeout: durationFromMs(1_000),
    };
    const { worker, callId, claim } = await holding({ accept: true, policy });
    await worker.when("a confirmation", () => worker.confirmed.includes(claim.claimId));
    const cutAt = performance.now();
    worker.cut();
    await untilState(callId, "failed");
    expect(performance.now() - cutAt).toBeGreaterThan(700);
    expect((await it.node.call(callId)).failure).toMatchObject({ outcomeUnknown: true });
  });

  test("a worker that goes silent is cut after three intervals, and keeps its claims until the heartbeat timeout", async () => {
    const policy = { detachGrace: durationFromMs(100), heartbeatTimeout: durationFromMs(1_500) };
    const { worker, callId, hello, claim } = await holding({ accept: true, policy });
    await worker.beat(claim);
    const silentAt = performance.now();
    expect(await worker.end()).toBe("UNAVAILABLE");
    expect(performance.now() - silentAt).toBeGreaterThan(3 * INTERVAL_MS - 50);
    await untilDetached(hello.sessionId!);
    await throughout(500, async () => expect(await state(callId)).toBe("claimed"));
    await untilState(callId, "queued");
    expect(performance.now() - silentAt).toBeGreaterThan(1_400);
  });

  test("a worker in a black hole, with frames that it cannot read, is let go after three intervals", async () => {
    await using proxy = await TcpProxy.start(it.node.port);
    const tool = newTool();
    const hello = newHello({ tools: [tool], slots: 40 });
    const worker = await WorkClient.open(proxy.url, hello);
    proxy.blackHole();
    const inputJson = JSON.stringify(randomBytes(400_000).toString("hex"));
    const ids = await it.node.open(...Array.from({ length: 4 }, () => ({ tool, inputJson })));
    await untilDetached(hello.sessionId!);
    const other = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 40 }));
    await keepingAlive(other, () => Promise.all(ids.map((id) => other.claimOf(id))));
    await Promise.all([worker.close(), other.close()]);
  });

  test("a frame above the limit ends the stream with FRAME_TOO_LARGE, and the node lives on", async () => {
    const { worker, callId, claim } = await holding({ accept: true });
    worker.answer(claim, `"${"x".repeat(4 * 1024 * 1024)}"`);
    expect(await worker.end()).toBe("FRAME_TOO_LARGE");
    expect(await state(callId)).toBe("claimed");
    expect(it.node.faults).toEqual([]);
  });

  test("bytes that are no message end the stream, and the node lives on", async () => {
    const session = connect(it.node.url);
    const stream = session.request({
      ":method": "POST",
      ":path": "/trunkline.v1.WorkerService/Work",
      "content-type": "application/grpc+proto",
      te: "trailers",
    });
    stream.end(Buffer.from([0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]));
    const trailers = once(stream, "trailers");
    stream.resume();
    const [headers] = (await trailers) as [Record<string, string>];
    expect(headers["grpc-status"]).not.toBe("0");
    session.destroy();
    expect(it.node.faults).toEqual([]);
    const worker = await WorkClient.open(it.node.url);
    await worker.close();
  });

  test("a worker that is gone leaves nothing behind: no stream, session, timer or claim (S02)", async () => {
    const tool = newTool();
    const runId = await it.node.newRun();
    for (let round = 0; round < 5; round++) {
      const workers = await Promise.all(
        Array.from({ length: 4 }, () => WorkClient.open(it.node.url, newHello({ tools: [tool] }))),
      );
      await it.node.openIn(runId, { tool }, { tool });
      for (const [index, worker] of workers.entries()) {
        if (index % 2 === 0) worker.cut();
        else worker.reset();
      }
      await Promise.all(workers.map((worker) => worker.end()));
    }
    await until("all streams have been let go", () => it.node.deps.streams.size === 0);
    await it.node.runs.endRun({ runId });
    await until("no session is left", () =>
      [...it.node.exchange.sessions.all()].every(({ facts }) => !facts.tools.includes(tool)),
    );
    expect(it.node.faults).toEqual([]);
  });

  test("a worker that is gone before its welcome leaves no session that claims are sent to", async () => {
    const tool = newTool();
    for (let round = 0; round < 20; round++) {
      const worker = new WorkClient(it.node.url);
      worker.send({ hello: newHello({ tools: [tool] }) });
      await it.node.newRun();
      worker.cut();
    }
    const callId = await it.node.openOne({ tool });
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool] }));
    await keepingAlive(worker, () => worker.claimOf(callId));
    await worker.close();
  });

  test("a worker that never reads and then goes leaves nothing behind, and its unframed claims go elsewhere", async () => {
    const tool = newTool();
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 40 }));
    worker.pause();
    const inputJson = JSON.stringify("x".repeat(200_000));
    const ids = await it.node.open(...Array.from({ length: 16 }, () => ({ tool, inputJson })));
    worker.cut();
    const other = await WorkClient.open(it.node.url, newHello({ tools: [tool], slots: 40 }));
    await keepingAlive(other, () => Promise.all(ids.map((id) => other.claimOf(id, 1))));
    worker.resume();
    await other.close();
  });
});

/** The same hello, naming these claims. */
function again(hello: ReturnType<typeof newHello>, ...claims: Held[]): ReturnType<typeof newHello> {
  return { ...hello, claims: claims.map(idsOf) } as ReturnType<typeof newHello>;
}

function idsOf({ callId, claimId }: { readonly callId: string; readonly claimId: string }) {
  return { callId, claimId };
}

/** Sends heartbeats, which name these claims, until the work is done. */
async function keepingAlive<T>(
  worker: WorkClient,
  work: () => Promise<T>,
  ...claims: { readonly callId: string; readonly claimId: string }[]
): Promise<T> {
  const beat = setInterval(() => {
    worker.send({ heartbeat: { claims: claims.map(({ claimId }) => claimId) } });
  }, INTERVAL_MS / 2);
  try {
    return await work();
  } finally {
    clearInterval(beat);
  }
}
