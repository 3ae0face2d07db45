import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import type { Failure } from "../../server/src/core/failure.js";
import { reconcile } from "../../server/src/maintenance/reconcile.js";
import { until } from "../support/until.js";
import { attach, emptyQueues, newName, newRun, open, SCOPE, useExchanges } from "./support/exchanges.js";
import { LossyPostgres } from "./support/lossy-postgres.js";

const nodes = useExchanges();
let network: LossyPostgres;

beforeAll(async () => {
  network = await LossyPostgres.start(nodes.database.url);
});
afterAll(() => network[Symbol.asyncDispose]());

const LATER: Failure = {
  kind: "tool",
  message: "later",
  dataJson: null,
  retryable: true,
  outcomeUnknown: false,
};

/** Three runs: two of one end user and one of another; and what workers of the first user, and of its first run, hold. */
async function stage() {
  const { exchange, faults } = await nodes.start({ url: network.url, heartbeatIntervalMs: 50 });
  const [ada, bob] = [newName("ada"), newName("bob")];
  const runs = {
    own: await newRun(exchange, { namespace: ada }),
    second: await newRun(exchange, { namespace: ada }),
    foreign: await newRun(exchange, { namespace: bob }),
  };
  const ofUser = { ...SCOPE, namespace: ada };
  return {
    exchange,
    faults,
    tool: newName("tool"),
    runs,
    ofUser,
    ofRun: { ...ofUser, runId: runs.own.record.id },
  };
}

const runsOf = (offers: readonly { readonly call: Call }[]): string[] => offers.map(({ call }) => call.runId);

describe.each(["ofUser", "ofRun"] as const)("a worker whose credential is bound (%s)", (bound) => {
  /** Calls of which runs it may have. */
  const names = bound === "ofUser" ? (["own", "second"] as const) : (["own"] as const);
  const others = bound === "ofUser" ? (["foreign"] as const) : (["second", "foreign"] as const);

  test("is chosen directly for a new call that it may have, and for no other (I7)", async () => {
    const { exchange, tool, runs, ...scopes } = await stage();
    const worker = await attach(exchange, { tools: [tool], scope: scopes[bound] });
    await emptyQueues(exchange, worker);
    for (const name of others) {
      expect((await open(exchange, runs[name], { tool })).state).toBe("queued");
      const everything = await attach(exchange, { tools: [tool] });
      await everything.offered();
      exchange.sessions.drain(everything.own);
      await emptyQueues(exchange, worker);
    }
    for (const name of names) {
      await emptyQueues(exchange, worker);
      expect((await open(exchange, runs[name], { tool })).state).toBe("claimed");
    }
    expect(runsOf(worker.offers)).toEqual(names.map((name) => runs[name].record.id));
  });

  test("claims of a queue what it may have, by priority and age, and leaves the rest to others (I7)", async () => {
    const { exchange, tool, runs, ...scopes } = await stage();
    const order = ["foreign", "own", "second", "own"] as const;
    for (const [priority, name] of [...order, ...order].entries())
      await open(exchange, runs[name], { tool, priority: priority % 4 });
    const worker = await attach(exchange, { tools: [tool], scope: scopes[bound], slots: 20 });
    const mine = [...order, ...order].filter((name) => names.some((each) => each === name)).length;
    await until("its claims", () => worker.offers.length === mine);
    expect(new Set(runsOf(worker.offers))).toEqual(new Set(names.map((name) => runs[name].record.id)));
    const unbound = await attach(exchange, { tools: [tool], slots: 20 });
    await until("the rest", () => unbound.offers.length === 8 - mine);
    expect(new Set(runsOf(unbound.offers))).toEqual(new Set(others.map((name) => runs[name].record.id)));
    expect(worker.offers).toHaveLength(mine);
    if (bound === "ofRun") expect(worker.offers.map(({ call }) => call.seq)).toEqual([2, 4, 1, 3]);
  });

  test("that finds none of its own leaves the queue to be looked at by others", async () => {
    const { exchange, tool, runs, ...scopes } = await stage();
    const call = await open(exchange, runs.foreign, { tool });
    const worker = await attach(exchange, { tools: [tool], scope: scopes[bound], slots: 1 });
    await until("its round is over", () => worker.own.credit === 1);
    const unbound = await attach(exchange, { tools: [tool] });
    await unbound.offerOf(call);
    expect(worker.offers).toEqual([]);
  });

  test("gets a call that is retried, if it may have it, and no other (I7)", async () => {
    const { exchange, tool, runs, ...scopes } = await stage();
    const policy = { backoffInitialMs: 1, backoffMaxMs: 1 };
    const first = await attach(exchange, { tools: [tool] });
    const calls = [];
    for (const run of Object.values(runs)) calls.push(await open(exchange, run, { tool, policy }));
    for (const call of calls) await first.offerOf(call);
    exchange.sessions.drain(first.own);
    const worker = await attach(exchange, { tools: [tool], scope: scopes[bound] });
    for (const { call } of [...first.offers]) {
      const claimId = call.claim.id;
      await exchange.apply(
        call,
        { type: "answer", claimId, answer: { type: "failure", failure: LATER } },
        SCOPE,
      );
      await exchange.apply(
        call,
        { type: "due", ready: true, attempt: false, defer: false, total: false },
        null,
      );
    }
    await until("its claims", () => worker.offers.length === names.length);
    const unbound = await attach(exchange, { tools: [tool] });
    await until("the rest", () => unbound.offers.length === others.length);
    expect(new Set(runsOf(worker.offers))).toEqual(new Set(names.map((name) => runs[name].record.id)));
    expect([...worker.offers, ...unbound.offers].map(({ call }) => call.attempt)).toEqual([2, 2, 2]);
  });

  test("gets a claim again that reconciliation has taken back, and with it nobody else's (I7)", async () => {
    const { exchange, faults, tool, runs, ...scopes } = await stage();
    await open(exchange, runs.foreign, { tool });
    const call = await open(exchange, runs.own, { tool });
    const lost = network.lose(
      bound === "ofUser" ? "calls_claim_of_namespace" : "calls_claim_of_run",
      "reply",
    );
    const worker = await attach(exchange, { tools: [tool], scope: scopes[bound] });
    await lost;
    await until("the round's failure is known", () => faults.length > 0);
    await until("the claim is taken back", async () => {
      await reconcile(exchange);
      return worker.offers.length > 0;
    });
    await worker.offerOf(call, 2);
    expect(runsOf(worker.offers)).toEqual([call.runId]);
  });
});

describe("with a worker for each of 30 end users", () => {
  /** A worker for each, all of whose queues are known to be empty, and what the node asks the database from then on. */
  async function crowd() {
    const asked: string[] = [];
    const node = await nodes.start({ onStatement: (name) => void asked.push(name) });
    const { exchange } = node;
    const tool = newName("tool");
    const user = newName("user");
    const users = [user, ...Array.from({ length: 29 }, () => newName("user"))];
    const workers = await Promise.all(
      users.map((namespace) => attach(exchange, { tools: [tool], scope: { ...SCOPE, namespace } })),
    );
    const foreign = await newRun(exchange, { namespace: newName("foreign") });
    const own = await newRun(exchange, { namespace: user });
    for (const worker of workers) await until("its first round is over", () => worker.own.credit === 10);
    await exchange.dispatch.poll();
    asked.splice(0);
    const claims = (): string[] => asked.filter((name) => /claim|filled/.test(name));
    return { exchange, tool, workers, foreign, own, claims };
  }

  test("a call that none of them may have keeps no other call from going straight to its worker", async () => {
    const { exchange, tool, foreign, own, claims } = await crowd();
    expect((await open(exchange, foreign, { tool })).state).toBe("queued");
    expect((await open(exchange, own, { tool })).state).toBe("claimed");
    await exchange.dispatch.poll();
    expect((await open(exchange, own, { tool })).state).toBe("claimed");
    expect(claims().filter((name) => name !== "calls_filled")).toEqual([]);
  });

  test("what another node has queued is found by one read for all, and claimed for those who may have it", async () => {
    const { exchange, tool, workers, foreign, own, claims } = await crowd();
    const { exchange: other } = await nodes.start();
    await open(other, foreign, { tool });
    const call = await open(other, own, { tool });
    exchange.heard({ queued: [[SCOPE.projectId, tool]], ended: [] });
    await workers[0]!.offerOf(call);
    expect(claims()).toEqual(["calls_filled", "calls_claim_of_namespace"]);
  });

  test("that has a worker for everybody beside it, a call goes to its own one first", async () => {
    const { exchange, tool, workers, foreign, own } = await crowd();
    const everybodys = await attach(exchange, { tools: [tool] });
    await emptyQueues(exchange, everybodys);
    for (let calls = 1; calls <= 3; calls++) await open(exchange, own, { tool });
    await open(exchange, foreign, { tool });
    expect(runsOf(everybodys.offers)).toEqual([foreign.record.id]);
    expect(workers[0]!.offers).toHaveLength(3);
  });
});

test("workers of the same tools that ask at once get each what its own credential reaches (I7)", async () => {
  const { exchange, tool, runs, ofUser, ofRun } = await stage();
  const scopes = [
    ofRun,
    { ...ofRun, runId: runs.second.record.id },
    { ...SCOPE, namespace: runs.foreign.record.namespace },
    // The other end user's token cannot be of this run; where one says so, there is nothing for it.
    { ...ofRun, namespace: runs.foreign.record.namespace },
  ];
  for (const order of [scopes, scopes.toReversed()]) {
    for (const run of Object.values(runs)) await open(exchange, run, { tool });
    const workers = await Promise.all(
      order.map((scope) => attach(exchange, { tools: [tool], scope, slots: 0 })),
    );
    for (const { own } of workers) exchange.dispatch.grant(own, 5);
    await until("the claims", () => workers.flatMap(({ offers }) => offers).length === 3);
    for (const { own, offers } of workers) {
      const { runId = runs.foreign.record.id, namespace } = own.scope;
      const none = runId !== runs.foreign.record.id && namespace !== ofUser.namespace;
      expect(runsOf(offers)).toEqual(none ? [] : [runId]);
      exchange.sessions.drain(own);
    }
  }
});

describe("workers with one session id under different credentials", () => {
  async function four() {
    const { exchange, tool, runs, ofUser, ofRun } = await stage();
    const who = { sessionId: newName("session"), nonce: newName("nonce") };
    const scopes = {
      key: SCOPE,
      ofUser,
      ofRun,
      ofAnother: { ...SCOPE, namespace: runs.foreign.record.namespace },
    };
    const hello = (name: keyof typeof scopes, more: Parameters<typeof attach>[1] = {}) =>
      attach(exchange, { ...who, tools: [tool], scope: scopes[name], ...more });
    return { exchange, tool, runs, scopes, hello };
  }

  test("are different sessions: each has its stream, and another process is refused by its own alone", async () => {
    const { exchange, scopes, hello } = await four();
    const names = Object.keys(scopes) as (keyof typeof scopes)[];
    const workers = await Promise.all(names.map((name) => hello(name, { slots: 0 })));
    expect(new Set(workers.map(({ own }) => own.number)).size).toBe(names.length);
    expect(workers.map(({ ended }) => ended)).toEqual(names.map(() => undefined));
    const gone = workers[2]!;
    await exchange.sessions.streamEnded(gone.own, gone, "closed");
    // As if that were not written down yet: that the stream has gone this node knows by itself.
    await nodes.database
      .pool()
      .query("UPDATE sessions SET state = 'attached', detached_at = NULL WHERE id = $1", [gone.own.number]);
    const nonce = newName("another-process");
    const answers = await Promise.allSettled(names.map((name) => hello(name, { slots: 0, nonce })));
    const refused = { status: "rejected", reason: { reason: "SESSION_IN_USE" } };
    expect(answers).toMatchObject([refused, refused, { status: "fulfilled" }, refused]);
  });

  test("cannot take over, name or beat for what another of them holds, not by its exact claim (I2, I7)", async () => {
    const { exchange, tool, runs, scopes, hello } = await four();
    const holder = await hello("ofRun");
    const { call } = await open(exchange, runs.own, { tool }).then((opened) => holder.offerOf(opened));
    const claims = [{ ref: call, claimId: call.claim.id }];
    for (const name of ["key", "ofUser", "ofAnother"] as const) {
      const thief = await hello(name, { claims, slots: 0 });
      expect(thief.welcomed.verdicts).toEqual([{ claimId: call.claim.id, standing: "lost" }]);
      expect(exchange.heartbeats.beat(thief.own, [call.claim.id], [])).toEqual([call.claim.id]);
      const { sessionId, nonce } = thief.own.facts;
      const sign = { scope: scopes[name], sessionId, nonce };
      expect(await exchange.heartbeats.beatApart(sign, [call.claim.id], [])).toEqual({
        confirmed: [],
        lost: [call.claim.id],
      });
      // Another process under the id, once nobody has a stream: what it takes over is its own session, with nothing.
      await exchange.sessions.streamEnded(thief.own, thief, "closed");
      const next = await hello(name, { claims, slots: 0, nonce: newName("next") });
      expect(next.welcomed.verdicts).toEqual([{ claimId: call.claim.id, standing: "lost" }]);
    }
    expect(holder.own.held.has(call.claim.id)).toBe(true);
    expect(exchange.heartbeats.beat(holder.own, [call.claim.id], [])).toEqual([]);
    expect(await nodes.call(call)).toMatchObject({ state: "claimed", claim_id: call.claim.id, attempt: 1 });
  });
});
