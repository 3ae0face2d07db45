import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import type { Failure } from "../../server/src/core/failure.js";
import { resolvePolicy } from "../../server/src/core/policy.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import { loadCalls, loadRecords } from "../../server/src/store/calls-read.js";
import { endCalls, saveCalls, saveProgress } from "../../server/src/store/calls-save.js";
import { endRun } from "../../server/src/store/runs.js";
import { untilBlocked } from "./blocked.js";
import {
  apply,
  decided,
  makeRun,
  makeSession,
  newName,
  newRow,
  openCall,
  PROJECT,
  reload,
  save,
  useStore,
} from "./fixture.js";

const store = useStore();

const RESULT = { type: "result", resultJson: '{"ok":true}' } as const;

const failed = (patch: Partial<Failure> = {}): { type: "failure"; failure: Failure } => ({
  type: "failure",
  failure: { kind: "tool", message: "no", dataJson: null, retryable: true, outcomeUnknown: false, ...patch },
});

async function openClaimed(patch: Parameters<typeof openCall>[3] = {}): Promise<Call & { state: "claimed" }> {
  const session = await makeSession(store.db);
  const call = await openCall(store.db, await makeRun(store.db), 1, { session, ...patch });
  if (call.state !== "claimed") throw new Error("the call is not claimed");
  return call;
}

describe("a save", () => {
  test("of an older version changes nothing, whatever it would make of the call (I1, I2)", async () => {
    const held = await openClaimed();
    const claimId = held.claim.id;
    const late = [
      decided(held, { type: "answer", claimId, answer: RESULT }),
      decided(held, { type: "release", claimId }),
      decided(held, { type: "cancel", cause: "canceled" }),
      decided(held, { type: "defer", claimId, tokenHash: "00", timeoutMs: null }),
    ];
    const now = await apply(store.db, held, {
      type: "answer",
      claimId,
      answer: { type: "result", resultJson: "1" },
    });
    const [before] = await loadRecords(store.db, [held]);
    for (const item of late) expect(await save(store.db, item)).toEqual({ type: "stale" });
    expect(await loadRecords(store.db, [held])).toEqual([before]);
    expect(before?.call).toEqual(now);
  });

  test("under another claim than the row's changes nothing, even with the right version (I2)", async () => {
    const held = await openClaimed();
    const forged = { ...held, claim: { ...held.claim, id: newName("claim") } };
    const ends = decided(forged, { type: "answer", claimId: forged.claim.id, answer: RESULT });
    const queues = decided(forged, { type: "release", claimId: forged.claim.id });
    expect(await save(store.db, ends)).toEqual({ type: "stale" });
    expect(await save(store.db, queues)).toEqual({ type: "stale" });
    expect(await reload(store.db, held)).toEqual(held);
  });

  test("of an ended call never changes it, even where the version were right (I1)", async () => {
    const held = await openClaimed();
    const ended = await apply(store.db, held, { type: "answer", claimId: held.claim.id, answer: RESULT });
    const forged = { ...held, version: ended.version };
    const again = decided(forged, {
      type: "settle",
      attempt: null,
      answer: { type: "result", resultJson: "2" },
    });
    expect(await save(store.db, again)).toEqual({ type: "stale" });
    expect(await save(store.db, decided(forged, { type: "release", claimId: held.claim.id }))).toEqual({
      type: "stale",
    });
    expect(await reload(store.db, held)).toEqual(ended);
  });

  test("of two at once from the same version one is stored, the other told that it came late (I2)", async () => {
    const held = await openClaimed();
    const answer = decided(held, { type: "answer", claimId: held.claim.id, answer: RESULT });
    const cancel = decided(held, { type: "cancel", cause: "canceled" });
    const late = await store.other.transaction(async (tx) => {
      expect(await save(tx, answer)).toMatchObject({ type: "saved" });
      const sent = save(store.db, cancel);
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await late.sent).toEqual({ type: "stale" });
    expect(await reload(store.db, held)).toEqual(answer.change.next);
  });

  test("outcomes come in the order of the items, the stale one in its place (I11)", async () => {
    const calls = [await openClaimed(), await openClaimed(), await openClaimed()];
    const items = calls.map((call) =>
      decided(call, { type: "answer", claimId: call.claim.id, answer: RESULT }),
    );
    await apply(store.db, calls[1]!, { type: "cancel", cause: "canceled" });
    const outcomes = await endCalls(store.db, [...items].reverse());
    expect(outcomes.map(({ type }) => type)).toEqual(["saved", "stale", "saved"]);
  });

  test("of batches that meet the same calls in different orders does not deadlock", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const rows = Array.from({ length: 400 }, (_, index) => newRow(run, index + 1, { session }));
    await insertCalls(store.db, rows);
    const calls = rows.map(({ call }) => call);
    // Both connections are up before the race.
    expect(await loadCalls(store.other, calls)).toEqual(calls);
    const items = calls.map((call) =>
      decided(call, { type: "defer", claimId: call.claim?.id ?? "", tokenHash: "00", timeoutMs: null }),
    );
    const outcomes = await Promise.all([
      saveCalls(store.db, items),
      saveCalls(store.other, [...items].reverse()),
    ]);
    expect(outcomes.flat().filter(({ type }) => type === "saved")).toHaveLength(calls.length);
  });
});

describe("a call that would be queued again", () => {
  test("is not when its run has ended: the exchange is told, and nothing changes", async () => {
    const held = await openClaimed();
    const item = decided(held, { type: "release", claimId: held.claim.id });
    await endRun(store.db, PROJECT, held.runId);
    expect(await save(store.db, item)).toEqual({ type: "run_ended" });
    expect(await reload(store.db, held)).toEqual(held);
    const answer = decided(held, { type: "answer", claimId: held.claim.id, answer: RESULT });
    expect(await save(store.db, answer)).toMatchObject({ type: "saved" });
  });

  test("waits for an end of its run that came first, and is not queued after it", async () => {
    const held = await openClaimed();
    const late = await store.other.transaction(async (tx) => {
      await endRun(tx, PROJECT, held.runId);
      const sent = save(store.db, decided(held, { type: "release", claimId: held.claim.id }));
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await late.sent).toEqual({ type: "run_ended" });
  });

  test("is told stale when it has changed as well as when only that", async () => {
    const held = await openClaimed();
    const item = decided(held, { type: "release", claimId: held.claim.id });
    await apply(store.db, held, { type: "answer", claimId: held.claim.id, answer: RESULT });
    expect(await save(store.db, item)).toEqual({ type: "stale" });
  });
});

describe("times", () => {
  test("are set from the database's now, kept, or cleared, and the next due one is the least (I10)", async () => {
    const policy = resolvePolicy({ totalTimeoutMs: 3_600_000, attemptTimeoutMs: 60_000 }, {}, 1_000);
    const held = await openClaimed({ policy });
    const [before] = await loadRecords(store.db, [held]);
    const item = decided(held, { type: "answer", claimId: held.claim.id, answer: failed() });
    const outcome = await save(store.db, item);
    const [after] = await loadRecords(store.db, [held]);
    const ready = item.change.timers.ready;
    if (typeof ready === "string") throw new Error("no backoff");
    const endedAt = after?.attempts[0]?.endedAt ?? 0;
    expect(outcome).toMatchObject({
      type: "saved",
      readyAt: endedAt + ready.inMs * 1_000,
      attemptTimeoutAt: null,
    });
    expect(after).toMatchObject({ totalTimeoutAt: before?.totalTimeoutAt, attemptTimeoutAt: null });
    const { rows } = await store.database
      .pool()
      .query<{ same: boolean }>("SELECT due_at = ready_at AS same FROM calls WHERE run_id = $1", [
        held.runId,
      ]);
    expect(rows).toEqual([{ same: true }]);
  });

  test("a deferral of ten years is stored to the millisecond, and says when its run expires (B07)", async () => {
    const session = await makeSession(store.db);
    const run = await makeRun(store.db, { ttlMs: 60 * 86_400_000 });
    const held = await openCall(store.db, run, 1, { session });
    const timeoutMs = 10 * 365 * 86_400_000;
    const claimId = held.claim?.id ?? "";
    const outcome = await save(
      store.db,
      decided(held, { type: "defer", claimId, tokenHash: "ab", timeoutMs }),
    );
    if (outcome.type !== "saved") throw new Error(outcome.type);
    expect(outcome.runExpiresAt).toBe(run.expiresAt);
    expect((outcome.deferTimeoutAt ?? 0) / 1_000 - Date.now() - timeoutMs).toBeLessThan(60_000);
    expect(await reload(store.db, held)).toMatchObject({
      state: "deferred",
      tokens: [{ attempt: 1, hash: "ab" }],
    });
  });
});

describe("the history of failed attempts", () => {
  test("keeps the last 20, each with its worker and its times", async () => {
    const policy = resolvePolicy({ maxAttempts: 30 }, {}, 1_000);
    const session = await makeSession(store.db);
    let call: Call = await openCall(store.db, await makeRun(store.db), 1, { session, policy });
    for (let number = 1; number <= 24; number++) {
      const claimId = call.claim?.id ?? "";
      call = await apply(store.db, call, {
        type: "answer",
        claimId,
        answer: failed({ message: `no ${number}` }),
      });
      call = await apply(store.db, call, {
        type: "due",
        ready: true,
        attempt: false,
        defer: false,
        total: false,
      });
      const claim = { claimId: newName("claim"), session: session.number, worker: `worker-${number + 1}` };
      call = await apply(store.db, call, { type: "claim", ...claim });
    }
    const [record] = await loadRecords(store.db, [call]);
    expect(record?.attempts.map(({ number }) => number)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 5),
    );
    expect(record?.attempts.at(-1)).toMatchObject({ worker: "worker-24", failure: { message: "no 24" } });
    for (const { claimedAt, endedAt } of record?.attempts ?? [])
      expect(endedAt).toBeGreaterThan(claimedAt ?? 0);
  });
});

describe("what a tool says of its failure", () => {
  const nasty = [
    { name: "a NUL escape and a half emoji in a key", text: '{"\\u0000\\ud83d": "\\udc00"}' },
    { name: "an escaped backslash before u0000", text: '{"a":"\\\\u0000"}' },
    { name: "a whole emoji, and digits above 2^53", text: '{"😀": 9007199254740993, "x": 1e400}' },
  ];

  test.each(nasty)(
    "is stored unchanged with $name, in the end and in the history (B06)",
    async ({ text }) => {
      const failure = failed({ message: `raw \0 and \ud83d and ${text}`, dataJson: text }).failure;
      const held = await openClaimed();
      const retried = await apply(store.db, held, {
        type: "answer",
        claimId: held.claim.id,
        answer: { type: "failure", failure },
      });
      const ended = await apply(store.db, retried, {
        type: "settle",
        attempt: null,
        answer: { type: "failure", failure: { ...failure, retryable: false } },
      });
      const [record] = await loadRecords(store.db, [ended]);
      expect(record?.call).toEqual(ended);
      expect(record?.attempts.map((attempt) => attempt.failure)).toEqual([failure]);
    },
  );

  test.each(nasty)("and a result are stored unchanged with $name (B06)", async ({ text }) => {
    const held = await openClaimed();
    const answer = { type: "result", resultJson: text } as const;
    const ended = await apply(store.db, held, { type: "answer", claimId: held.claim.id, answer });
    expect(await reload(store.db, held)).toEqual(ended);
  });
});

describe("saveProgress", () => {
  test("is stored under the live claim only, and counts no version (I2)", async () => {
    const held = await openClaimed();
    const item = { ref: held, claimId: held.claim.id, progressJson: '{"done": 1}' };
    await saveProgress(store.db, [item, { ...item, ref: { ...held, seq: 99 } }]);
    await saveProgress(store.db, [{ ...item, claimId: newName("claim"), progressJson: "2" }]);
    const [record] = await loadRecords(store.db, [held]);
    expect(record).toMatchObject({ progressJson: '{"done": 1}', call: held });
    const ended = await apply(store.db, held, { type: "answer", claimId: held.claim.id, answer: RESULT });
    await saveProgress(store.db, [{ ...item, progressJson: "3" }]);
    const [after] = await loadRecords(store.db, [held]);
    expect(after).toMatchObject({ progressJson: '{"done": 1}', call: ended });
  });

  test("touches no index, while there is room on the page (B29)", async () => {
    const held = await openClaimed();
    const count = {
      name: "hot",
      text: "SELECT pg_stat_get_xact_tuples_hot_updated('calls'::regclass)::int AS hot",
    };
    const [before, after] = await store.db.transaction(async (tx) => {
      const first = await tx.query<{ hot: number }>(count, []);
      await saveProgress(tx, [{ ref: held, claimId: held.claim.id, progressJson: "1" }]);
      return [first[0]?.hot, (await tx.query<{ hot: number }>(count, []))[0]?.hot];
    });
    expect(after).toBe((before ?? 0) + 1);
  });
});
