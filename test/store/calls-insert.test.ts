import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, resolvePolicy } from "../../server/src/core/policy.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import { countCalls, findCalls, loadRecords, openCallsOfRun } from "../../server/src/store/calls-read.js";
import { classifyError } from "../../server/src/store/database.js";
import { endRun } from "../../server/src/store/runs.js";
import { untilBlocked } from "./blocked.js";
import {
  insertRow,
  makeRun,
  makeSession,
  newHello,
  newName,
  newRow,
  openCall,
  PROJECT,
  reload,
  SCOPE,
  useStore,
  helloSession,
} from "./fixture.js";

const store = useStore();

describe("insertCalls", () => {
  test("a call is read back as it was born, queued, claimed or deferred, with its policy and payload", async () => {
    const run = await makeRun(store.db, { labels: { team: "red", __proto__x: "y" } });
    const session = await makeSession(store.db);
    const policy = resolvePolicy(
      { attemptTimeoutMs: 5_000, totalTimeoutMs: 60_000, maxAttempts: 2 },
      {},
      1_000,
    );
    const inputJson = '{"n": 9007199254740993, "n": 1e400, "nul": "\\u0000", "quote": "\\"\\\\", "e": "😀"}';
    const rows = [
      newRow(run, 1, { inputJson, priority: 7, turn: 3 }),
      newRow(run, 2, { session, policy }),
      newRow(run, 3, {
        executor: "client",
        policy: { ...DEFAULT_POLICY, deferTimeoutMs: 3 * 365 * 86_400_000 },
      }),
    ];
    const outcomes = await insertCalls(store.db, rows);
    expect(outcomes.map((outcome) => outcome.type === "inserted" && outcome.claimed)).toEqual([
      false,
      true,
      false,
    ]);
    const records = await loadRecords(
      store.db,
      rows.map(({ call }) => call),
    );
    expect(records.map((record) => record?.call)).toEqual(rows.map(({ call }) => call));
    expect(records[0]).toMatchObject({
      inputJson,
      priority: 7,
      labels: run.labels,
      claimedAt: null,
      endedAt: null,
    });
    const [, claimed, client] = records;
    expect(claimed?.claimedAt).toBe(claimed?.openedAt);
    expect((claimed?.attemptTimeoutAt ?? 0) - (claimed?.openedAt ?? 0)).toBe(5_000_000);
    expect((claimed?.totalTimeoutAt ?? 0) - (claimed?.openedAt ?? 0)).toBe(60_000_000);
    expect((client?.deferTimeoutAt ?? 0) - (client?.openedAt ?? 0)).toBe(3 * 365 * 86_400_000_000);
  });

  test("outcomes come in the order of the rows, though the batch is written by run", async () => {
    const runs = await Promise.all([makeRun(store.db), makeRun(store.db), makeRun(store.db)]);
    const ended = await makeRun(store.db);
    await endRun(store.db, PROJECT, ended.id);
    const rows = [runs[2], ended, runs[0], runs[1], ended, runs[0]].map((run, index) =>
      newRow(run, index + 1),
    );
    const outcomes = await insertCalls(store.db, rows);
    expect(outcomes.map(({ type }) => type)).toEqual([
      "inserted",
      "run_ended",
      "inserted",
      "inserted",
      "run_ended",
      "inserted",
    ]);
  });

  test("of two rows for one number, neither is taken for the other", async () => {
    const run = await makeRun(store.db);
    const key = newName("key");
    await insertRow(store.db, newRow(run, 1, { key }));
    const again = newRow(run, 2, { key });
    const rows = [newRow(run, 2), again, newRow(run, 3, { key }), newRow(run, 3)];
    expect(await insertCalls(store.db, rows)).toMatchObject([
      { type: "inserted" },
      { type: "exists", record: { call: { seq: 1 } } },
      { type: "exists", record: { call: { seq: 1 } } },
      { type: "seq_taken", nextSeq: 3 },
    ]);
  });

  test("a key that is opened on two connections at once gives one call, and both learn of it", async () => {
    const run = await makeRun(store.db);
    for (let round = 0; round < 20; round++) {
      const key = newName("key");
      const seq = 2 * round + 1;
      const outcomes = await Promise.all([
        insertRow(store.db, newRow(run, seq, { key })),
        insertRow(store.other, newRow(run, seq + 1, { key })),
      ]);
      expect(outcomes.map(({ type }) => type).sort()).toEqual(["exists", "inserted"]);
      const [ref] = await findCalls(store.db, SCOPE, [{ runId: run.id, key }]);
      const exists = outcomes.find((outcome) => outcome.type === "exists");
      expect(exists?.type === "exists" && exists.record.call.seq).toBe(ref?.seq);
    }
    expect(await countCalls(store.db, PROJECT, run.id)).toEqual({ open: 20, total: 20 });
  });

  test("a batch that is sent again before the first commits waits for it, and finds its own calls", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const rows = [newRow(run, 1, { session }), newRow(run, 2)];
    const again = await store.other.transaction(async (tx) => {
      expect((await insertCalls(tx, rows)).map(({ type }) => type)).toEqual(["inserted", "inserted"]);
      const sent = insertCalls(store.db, rows);
      await untilBlocked(store.database.pool());
      return { sent };
    });
    const outcomes = await again.sent;
    expect(outcomes.map((outcome) => outcome.type === "exists" && outcome.record.call)).toEqual(
      rows.map(({ call }) => call),
    );
  });

  test("a batch that waited for one which was rolled back inserts its calls itself", async () => {
    const run = await makeRun(store.db);
    const row = newRow(run, 1);
    let sent: Promise<unknown> | undefined;
    const rolledBack = store.other.transaction(async (tx) => {
      await insertCalls(tx, [row]);
      sent = insertRow(store.db, row);
      await untilBlocked(store.database.pool());
      throw new RangeError("for the test");
    });
    await expect(rolledBack).rejects.toThrow(RangeError);
    expect(await sent).toMatchObject({ type: "inserted" });
  });

  test("a number that another call has is told apart from a key, with the next free one", async () => {
    const run = await makeRun(store.db);
    await insertCalls(store.db, [newRow(run, 1), newRow(run, 5)]);
    expect(await insertRow(store.db, newRow(run, 5))).toEqual({ type: "seq_taken", nextSeq: 6 });
  });

  test("of two rows with one key or one number in a batch one is inserted, the other told", async () => {
    const run = await makeRun(store.db);
    const outcomes = await insertCalls(store.db, [
      newRow(run, 1, { key: "same" }),
      newRow(run, 2, { key: "same" }),
      newRow(run, 3),
      newRow(run, 3),
    ]);
    expect(outcomes.map(({ type }) => type)).toEqual(["inserted", "exists", "inserted", "seq_taken"]);
  });

  test("a run that is missing, foreign, ended or past its TTL takes no call", async () => {
    const run = await makeRun(store.db, { ttlMs: 1 });
    await store.database
      .pool()
      .query("UPDATE runs SET expires_at = now() - interval '1 s' WHERE id = $1", [run.id]);
    const active = await makeRun(store.db);
    const outcomes = await insertCalls(store.db, [
      newRow(run, 1),
      newRow({ ...active, id: "01890000-0000-7000-8000-000000000000" }, 1),
      newRow({ ...active, projectId: 2 }, 1),
    ]);
    expect(outcomes).toEqual([{ type: "run_ended" }, { type: "run_ended" }, { type: "run_ended" }]);
  });

  test("one row with a raw NUL fails the batch as an item's fault, and stores nothing of it (I11)", async () => {
    const run = await makeRun(store.db);
    const good = newRow(run, 1);
    for (const inputJson of ['"\0"', '"a\nb"', "{", '"\\ud83"']) {
      const error = await insertCalls(store.db, [good, newRow(run, 2, { inputJson })]).catch(
        (caught: unknown) => caught,
      );
      expect(classifyError(error)).toBe("item");
    }
    expect(await countCalls(store.db, PROJECT, run.id)).toEqual({ open: 0, total: 0 });
    expect(await insertRow(store.db, good)).toMatchObject({ type: "inserted" });
  });

  test("a call that was to be claimed is queued, unspent, when its session has moved on (I2)", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const row = newRow(run, 1, { session: { ...session, epoch: session.epoch - 1 } });
    expect(await insertRow(store.db, row)).toMatchObject({ type: "inserted", claimed: false });
    expect(await reload(store.db, row.call)).toMatchObject({
      state: "queued",
      version: 1,
      attempt: 0,
      spent: 0,
      claim: null,
    });
  });

  test("an insert that meets a hello of its session waits for it, and is queued", async () => {
    const run = await makeRun(store.db);
    const hello = newHello();
    const session = await makeSession(store.db, hello);
    const row = newRow(run, 1, { session });
    const held = await store.other.transaction(async (tx) => {
      await helloSession(tx, hello);
      const sent = insertRow(store.db, row);
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await held.sent).toMatchObject({ type: "inserted", claimed: false });
  });

  test("a hello waits for an insert that has chosen its session, and reads the claim", async () => {
    const run = await makeRun(store.db);
    const hello = newHello();
    const session = await makeSession(store.db, hello);
    const row = newRow(run, 1, { session });
    const held = await store.other.transaction(async (tx) => {
      await insertCalls(tx, [row]);
      const sent = helloSession(store.db, hello);
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await held.sent).toMatchObject({ type: "ok", epoch: session.epoch + 1, claims: [row.call] });
  });
});

describe("a run that ends under an open", () => {
  test("an open that came first is waited for, and is among the run's open calls then", async () => {
    const run = await makeRun(store.db);
    const held = await store.other.transaction(async (tx) => {
      await insertCalls(tx, [newRow(run, 1)]);
      const sent = endRun(store.db, PROJECT, run.id);
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await held.sent).toMatchObject({ state: "ended" });
    expect((await openCallsOfRun(store.db, PROJECT, run.id, 10)).map(({ seq }) => seq)).toEqual([1]);
  });

  test("an open that came second waits for the end, and is refused", async () => {
    const run = await makeRun(store.db);
    const held = await store.other.transaction(async (tx) => {
      await endRun(tx, PROJECT, run.id);
      const sent = insertRow(store.db, newRow(run, 1));
      await untilBlocked(store.database.pool());
      return { sent };
    });
    expect(await held.sent).toEqual({ type: "run_ended" });
    expect(await countCalls(store.db, PROJECT, run.id)).toEqual({ open: 0, total: 0 });
  });

  test("in a storm of opens, what was inserted is seen after the end, and nothing comes after it", async () => {
    for (let round = 0; round < 10; round++) {
      const run = await makeRun(store.db);
      const opens = Array.from({ length: 20 }, (_, index) => insertRow(store.other, newRow(run, index + 1)));
      const seen = (async () => {
        await opens[round];
        await endRun(store.db, PROJECT, run.id);
        return openCallsOfRun(store.db, PROJECT, run.id, 100);
      })();
      const inserted = (await Promise.all(opens)).filter(({ type }) => type === "inserted");
      expect((await seen).length).toBe(inserted.length);
    }
  });
});

describe("two batches that meet the same runs and keys in different orders", () => {
  test("do not deadlock", async () => {
    const runs = await Promise.all(Array.from({ length: 150 }, () => makeRun(store.db)));
    for (let round = 1; round <= 5; round++) {
      const keys = runs.map(() => newName("key"));
      const batch = runs.map((run, index) => newRow(run, round, { key: keys[index]! }));
      const outcomes = await Promise.all([
        insertCalls(store.db, batch),
        insertCalls(store.other, [...batch].reverse()),
      ]);
      const types = outcomes.flat().map(({ type }) => type);
      expect(types.filter((type) => type === "inserted")).toHaveLength(runs.length);
      expect(types.filter((type) => type === "exists")).toHaveLength(runs.length);
    }
  });
});

test("times are the database's, whatever the zone of this process and of the database (I10, S11)", async () => {
  const before = process.env["TZ"];
  process.env["TZ"] = "Asia/Kolkata";
  try {
    await store.database
      .pool()
      .query(`ALTER DATABASE ${store.database.name} SET timezone = 'America/St_Johns'`);
    const run = await makeRun(store.other);
    const call = await openCall(store.other, run, 1);
    const [record] = await loadRecords(store.other, [call]);
    expect(Math.abs((record?.openedAt ?? 0) / 1_000 - Date.now())).toBeLessThan(60_000);
    expect(record?.openedAt).toBeGreaterThanOrEqual(run.createdAt);
  } finally {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  }
});
