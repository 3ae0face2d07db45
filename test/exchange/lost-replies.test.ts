import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import type { Outcome } from "../../server/src/exchange/delivery.js";
import { reconcile } from "../../server/src/maintenance/reconcile.js";
import { untilBlocked } from "../store/blocked.js";
import { until } from "../support/until.js";
import {
  attach,
  emptyQueues,
  newRun,
  open,
  request,
  result,
  SCOPE,
  useExchanges,
  type ExchangeOptions,
  type TestExchange,
} from "./support/exchanges.js";
import { LossyPostgres } from "./support/lossy-postgres.js";

const nodes = useExchanges();
let network: LossyPostgres;

beforeAll(async () => {
  network = await LossyPostgres.start(nodes.database.url);
});
afterAll(() => network[Symbol.asyncDispose]());

/** A node whose replies from the database can be lost. */
const start = (options: ExchangeOptions = {}): Promise<TestExchange> =>
  nodes.start({ url: network.url, ...options });

describe("a batch whose reply is lost", () => {
  test("calls are created once, and their openers are told so", async () => {
    const { exchange } = await start();
    const run = await newRun(exchange);
    const lost = network.lose("calls_insert", "reply");
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => exchange.open(request(run))));
    await lost;
    expect(outcomes.map(({ type }) => type)).toEqual(outcomes.map(() => "created"));
    const { rows } = await nodes.database
      .pool()
      .query("SELECT FROM calls WHERE run_id = $1", [run.record.id]);
    expect(rows).toHaveLength(20);
  });

  test("a call inserted already claimed is delivered to its worker, once", async () => {
    const { exchange } = await start();
    const worker = await attach(exchange, { tools: ["direct"] });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const lost = network.lose("calls_insert", "reply");
    const call = await open(exchange, run, { tool: "direct" });
    await lost;
    const offer = await worker.offerOf(call);
    expect(offer.call.claim.id).toBe((await nodes.call(call)).claim_id);
    expect(worker.offers).toHaveLength(1);
    expect(worker.own.credit).toBe(9);
    await exchange.apply(call, { type: "answer", claimId: offer.call.claim.id, answer: result("1") }, SCOPE);
    expect((await nodes.call(call)).state).toBe("succeeded");
  });

  test("a claim of a worker that went away meanwhile is taken back, unspent", async () => {
    const { exchange } = await start();
    const worker = await attach(exchange, { tools: ["gone"] });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const lost = network
      .lose("calls_insert", "reply")
      .then(() => exchange.sessions.streamEnded(worker.own, worker, "closed"));
    const call = await open(exchange, run, { tool: "gone" });
    await lost;
    await until("the claim is taken back", async () => (await nodes.call(call)).state === "queued");
    expect(await nodes.call(call)).toMatchObject({ spent: 0, attempt: 1 });
    expect(worker.offers).toHaveLength(0);
  });

  test("an answer is stored once, and whoever waits is told, with the database's time", async () => {
    const { exchange } = await start();
    const run = await newRun(exchange);
    const calls = await Promise.all(Array.from({ length: 10 }, () => open(exchange, run)));
    const told: Outcome[] = [];
    for (const call of calls)
      exchange.waiters.add(call, { outcome: (outcome) => void told.push(outcome) }, SCOPE);
    const lost = network.lose("calls_end", "reply");
    const applied = await Promise.all(
      calls.map((call) =>
        exchange.apply(call, { type: "settle", attempt: null, answer: result("1") }, SCOPE),
      ),
    );
    await lost;
    expect(applied.every(({ verdict }) => verdict.ok)).toBe(true);
    expect(told).toHaveLength(10);
    expect(told.every(({ endedAt }) => endedAt !== null)).toBe(true);
    expect((await nodes.call(calls[0]!)).version).toBe(2);
  });

  test("a deferral is stored once, and its times are known", async () => {
    const { exchange } = await start();
    const worker = await attach(exchange, { tools: ["deferred"] });
    const call = await open(exchange, await newRun(exchange), { tool: "deferred" });
    const offer = await worker.offerOf(call);
    const lost = network.lose("calls_save", "reply");
    const { committed, verdict } = await exchange.apply(
      call,
      { type: "defer", claimId: offer.call.claim.id, tokenHash: "a".repeat(64), timeoutMs: 60_000 },
      SCOPE,
    );
    await lost;
    expect(verdict).toEqual({ ok: true, repeat: false });
    expect(committed?.times.deferTimeoutAt).toBeGreaterThan(0);
    expect((await nodes.call(call)).state).toBe("deferred");
  });

  test("a batch that commits after its client was cut is found by its own repeat", async () => {
    const { exchange } = await start();
    const run = await newRun(exchange);
    const blocker = await nodes.database.pool().connect();
    await blocker.query("BEGIN");
    await blocker.query("SELECT FROM runs WHERE id = $1 FOR UPDATE", [run.record.id]);
    const lost = network.lose("calls_insert", "client");
    const opened = open(exchange, run);
    await lost;
    // The first delivery and its repeat wait for the run together.
    await untilBlocked(nodes.database.pool(), 2);
    await blocker.query("COMMIT");
    blocker.release();
    const call = await opened;
    const { rows } = await nodes.database
      .pool()
      .query("SELECT seq FROM calls WHERE run_id = $1", [run.record.id]);
    expect(rows).toEqual([{ seq: call.seq }]);
  });
});

describe("a claim query whose reply is lost", () => {
  test("its claims are taken back by reconciliation, spent, and the credit was put back", async () => {
    const { exchange, faults } = await start({ heartbeatIntervalMs: 50 });
    const run = await newRun(exchange);
    const call = await open(exchange, run, { tool: "queried" });
    const lost = network.lose("calls_claim", "reply");
    const worker = await attach(exchange, { tools: ["queried"], slots: 1 });
    await lost;
    await until("the round's failure is known", () => faults.length > 0);
    expect(worker.own.credit).toBe(1);
    expect((await nodes.call(call)).state).toBe("claimed");
    await until("the claim is taken back", async () => {
      await reconcile(exchange);
      return (await nodes.call(call)).state !== "claimed" || worker.offers.length > 0;
    });
    const again = await worker.offerOf(call, 2);
    expect(again.call).toMatchObject({ attempt: 2, spent: 2 });
  });
});

describe("a database that cannot be reached", () => {
  test("an open waits for it, and is carried out when it is back", async () => {
    const { exchange } = await start();
    const run = await newRun(exchange);
    network.refuse();
    const opened = open(exchange, run);
    const refusal = exchange.runs
      .get(SCOPE, "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f")
      .catch((error: unknown) => error);
    expect(await refusal).toBeInstanceOf(Error);
    network.admit();
    expect((await nodes.call(await opened)).state).toBe("queued");
  });

  test("an acceptance that could not be stored is tried again by the next heartbeat that names its claim", async () => {
    const { exchange } = await start();
    const worker = await attach(exchange, { tools: ["accepted"] });
    const policy = { mode: "at_most_once" as const, maxAttempts: 1 };
    const call = await open(exchange, await newRun(exchange), { tool: "accepted", policy });
    const { call: claimed } = await worker.offerOf(call);
    const held = worker.own.held.get(claimed.claim.id)!;
    // No such row for now: saving fails the way a database does that refuses.
    await nodes.database.pool().query("ALTER TABLE calls RENAME COLUMN offers TO offers_");
    exchange.heartbeats.accept(worker.own, claimed.claim.id);
    await until("the acceptance has failed", () => !held.known);
    await nodes.database.pool().query("ALTER TABLE calls RENAME COLUMN offers_ TO offers");
    exchange.heartbeats.beat(worker.own, [claimed.claim.id], []);
    await until("it is confirmed", () => worker.confirmed.length === 1);
    expect((await nodes.call(call)).spent).toBe(1);
  });

  test("an item whose outcome stays unknown is refused with UNAVAILABLE", async () => {
    const { Batcher } = await import("../../server/src/exchange/batcher.js");
    const lost = Object.assign(new Error("Connection terminated"), { code: "08006" });
    const batcher = new Batcher<number, number>({
      write: () => Promise.reject(lost),
      sizeOf: () => 1,
      resendMs: 100,
    });
    const error = await batcher.push(1).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(TrunklineError);
    expect(error).toMatchObject({ reason: "UNAVAILABLE" });
  });
});
