import { describe, expect, test } from "vitest";
import { renew } from "../../server/src/maintenance/leases.js";
import { reconcile } from "../../server/src/maintenance/reconcile.js";
import { until } from "../support/until.js";
import {
  attach,
  emptyQueues,
  newName,
  newRun,
  open,
  result,
  SCOPE,
  useExchanges,
} from "./support/exchanges.js";

const nodes = useExchanges();

describe("Sessions", () => {
  test("a session that says hello on another node keeps the claims that it names, and the first node lets it go", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    const first = await attach(one.exchange, who);
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    const { claim } = (await first.offerOf(call)).call;
    const second = await attach(two.exchange, { ...who, claims: [{ ref: call, claimId: claim.id }] });
    expect(second.welcomed.verdicts).toEqual([{ claimId: claim.id, standing: "kept" }]);
    await renew(one.exchange);
    expect(first.ended?.reason).toBe("SUPERSEDED");
    expect([...one.exchange.sessions.all()]).toEqual([]);
    expect(one.exchange.sessions.recall(call)).toBeUndefined();
    await two.exchange.apply(call, { type: "answer", claimId: claim.id, answer: result("1") }, SCOPE);
    expect((await nodes.call(call)).state).toBe("succeeded");
  });

  test("the first node does not take back what its session holds elsewhere by now", async () => {
    const [one, two] = await Promise.all([
      nodes.start({ heartbeatIntervalMs: 1 }),
      nodes.start({ heartbeatIntervalMs: 1 }),
    ]);
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    await attach(one.exchange, who);
    const second = await attach(two.exchange, who);
    const call = await open(two.exchange, await newRun(two.exchange), { tool });
    await second.offerOf(call);
    for (let round = 0; round < 5; round++) await reconcile(one.exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
  });

  test("a detached session is let go when another node has it, and its claims with it", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    const first = await attach(one.exchange, who);
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    const { claim } = (await first.offerOf(call)).call;
    await one.exchange.sessions.streamEnded(first.own, first, "closed");
    expect([...one.exchange.sessions.all()]).toHaveLength(1);
    await attach(two.exchange, { ...who, claims: [{ ref: call, claimId: claim.id }] });
    await renew(one.exchange);
    expect([...one.exchange.sessions.all()]).toEqual([]);
    expect((await nodes.call(call)).state).toBe("claimed");
  });

  test("a claim that another node replaced is dropped here for the new one, which stays", async () => {
    const [one, two] = await Promise.all([nodes.start({ heartbeatIntervalMs: 1 }), nodes.start()]);
    const tool = newName("tool");
    const worker = await attach(one.exchange, { tools: [tool], slots: 1 });
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    const { claim } = (await worker.offerOf(call)).call;
    await two.exchange.apply(call, { type: "lease_ended", claimId: claim.id }, null);
    const other = await attach(one.exchange, { tools: [tool], slots: 1 });
    await one.exchange.dispatch.poll();
    const again = await other.offerOf(call, 2);
    expect(worker.revoked).toEqual([{ claimId: claim.id, cause: "lease_lost" }]);
    expect(worker.own.held.size).toBe(0);
    await reconcile(one.exchange);
    expect(other.revoked).toEqual([]);
    expect(one.exchange.sessions.recall(call)?.claim.id).toBe(again.call.claim.id);
  });

  test("a hello that was held up until a later one was taken on another node takes nothing back", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    const later = await attach(two.exchange, { ...who, helloNumber: 2 });
    const call = await open(two.exchange, await newRun(two.exchange), { tool });
    await later.offerOf(call);
    await expect(attach(one.exchange, { ...who, helloNumber: 1 })).rejects.toMatchObject({
      reason: "SUPERSEDED",
      message: expect.stringMatching(/^hello\.number: 1; .*higher number/),
    });
    expect(await nodes.call(call)).toMatchObject({ state: "claimed", spent: 1 });
    expect(later.ended).toBeUndefined();
  });

  test("two hellos that come back in the other order leave the later one in place", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    const hellos = await Promise.allSettled(Array.from({ length: 8 }, () => attach(exchange, who)));
    const workers = hellos.flatMap((hello) => (hello.status === "fulfilled" ? [hello.value] : []));
    for (const hello of hellos) {
      if (hello.status === "rejected") expect(hello.reason).toMatchObject({ reason: "SUPERSEDED" });
    }
    const [session] = [...exchange.sessions.all()];
    const { rows } = await nodes.database
      .pool()
      .query<{ epoch: number }>("SELECT epoch FROM sessions WHERE session_id = $1", [who.sessionId]);
    expect(rows).toEqual([{ epoch: session?.epoch }]);
    expect(workers.filter((worker) => session?.stream === worker)).toHaveLength(1);
    const call = await open(exchange, await newRun(exchange), { tool });
    await workers.find((worker) => session?.stream === worker)!.offerOf(call);
  });

  test("a hello that fails half-way leaves no session that claims are sent to", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const bad = { runId: "no uuid", seq: 1, projectId: 1 };
    await expect(attach(exchange, { tools: [tool], claims: [{ ref: bad, claimId: "x" }] })).rejects.toThrow();
    expect([...exchange.sessions.all()]).toEqual([]);
    expect((await open(exchange, await newRun(exchange), { tool })).state).toBe("queued");
  });

  test("credit dies with its stream: a new hello starts from its own slots", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const who = { sessionId: newName("session"), nonce: newName("nonce-of-a-process"), tools: [tool] };
    await attach(exchange, { ...who, slots: 10 });
    const worker = await attach(exchange, { ...who, slots: 2 });
    await emptyQueues(exchange, worker);
    expect(worker.own.credit).toBe(2);
  });

  test("a session whose worker left without claims is closed and forgotten at once", async () => {
    const { exchange } = await nodes.start();
    const sessionId = newName("session");
    const worker = await attach(exchange, { sessionId });
    await exchange.sessions.streamEnded(worker.own, worker, "closed");
    expect([...exchange.sessions.all()]).toEqual([]);
    const { rows } = await nodes.database
      .pool()
      .query<{ state: string }>("SELECT state FROM sessions WHERE session_id = $1", [sessionId]);
    expect(rows).toEqual([{ state: "closed" }]);
    await until("nothing is left to do", () => worker.own.credit === 0);
  });
});
