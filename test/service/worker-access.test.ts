import { randomBytes, randomUUID } from "node:crypto";
import { KeyScope } from "@trunkline/proto/admin";
import { CallState } from "@trunkline/proto/model";
import { afterEach, describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import type { Delivery } from "../../server/src/exchange/delivery.js";
import { WorkPoll } from "../../server/src/service/work-poll.js";
import { create } from "@bufbuild/protobuf";
import { HelloSchema } from "@trunkline/proto/worker";
import { until } from "../support/until.js";
import { beat, bearer, lively, ping } from "./bearer.js";
import { useNode } from "./node.js";
import { reasonOf, refusal, standings } from "./poll-client.js";
import { newHello, type Held, type WorkClient } from "./raw-stream.js";

const ROOT = "root-key-of-the-test";
const serving = useNode({ rootKey: ROOT, heartbeatIntervalMs: 200 });
const { WORKER, HARNESS } = KeyScope;

const streams: WorkClient[] = [];
afterEach(async () => {
  await Promise.all(streams.splice(0).map((stream) => stream.close()));
});

/** Runs of two end users, and workers' credentials: a key, and tokens of the first, of its first run, of the second. */
async function stage() {
  const { url } = serving.node;
  const root = bearer(url, ROOT);
  const tool = randomUUID();
  const [ada, bob] = [`ada-${tool}`, `bob-${tool}`];
  const newRun = async (namespace: string) => (await root.runs.createRun({ spec: { namespace } })).run!.id;
  const runs = { own: await newRun(ada), second: await newRun(ada), foreign: await newRun(bob) };
  const token = async (namespace: string, runId = "") =>
    bearer(url, (await root.admin.createToken({ namespace, runId, scopes: [WORKER] })).token);
  const { secret } = await root.admin.createKey({ name: "worker", scopes: [WORKER] });
  const open = async (name: keyof typeof runs) => {
    const { results } = await root.calls.openCalls({ runId: runs[name], calls: [{ tool }] });
    const result = results[0]?.result;
    return result?.case === "opened" ? result.value.callId : expect.fail("not opened");
  };
  const workers = {
    key: bearer(url, secret),
    ofUser: await token(ada),
    ofRun: await token(ada, runs.own),
    ofAnother: await token(bob),
  };
  const call = async (callId: string) => (await root.calls.getCall({ call: { callId } })).call!;
  return { root, tool, runs, open, workers, call };
}

async function opened(stream: Promise<WorkClient>): Promise<WorkClient> {
  const one = lively(await stream, beat);
  streams.push(one);
  return one;
}

const runsOf = (claims: readonly Held[]) => claims.map(({ callId }) => callId.split("/")[0]);

describe("a worker that holds a token", () => {
  test.each(["ofUser", "ofRun"] as const)(
    "gets calls of that alone by its stream, the new ones and the queued ones (I7): %s",
    async (bound) => {
      const { tool, runs, open, workers } = await stage();
      const mine = bound === "ofUser" ? (["own", "second"] as const) : (["own"] as const);
      for (const name of ["foreign", "second", "own"] as const) await open(name);
      const worker = await opened(workers[bound].work({ tools: [tool], slots: 20 }));
      await worker.when("what was queued", () => worker.claims.length === mine.length);
      for (const name of ["foreign", "second", "own"] as const) await open(name);
      await worker.when("what is new", () => worker.claims.length === 2 * mine.length);
      const unbound = await opened(workers.key.work({ tools: [tool], slots: 20 }));
      await unbound.when("the rest", () => unbound.claims.length === 6 - worker.claims.length);
      expect(new Set(runsOf(worker.claims))).toEqual(new Set(mine.map((name) => runs[name])));
      expect(runsOf(unbound.claims)).not.toContain(runs.own);
    },
  );

  test.each(["ofUser", "ofRun"] as const)("gets calls of that alone by polls (I7): %s", async (bound) => {
    const { tool, runs, open, workers } = await stage();
    for (const name of ["foreign", "second", "foreign"] as const) await open(name);
    const worker = workers[bound].polls({ tools: [tool], slots: 20 });
    const poll = worker.poll(5_000);
    if (bound === "ofUser") {
      expect(runsOf((await poll).claims)).toEqual([runs.second]);
      return;
    }
    await until("it waits", () =>
      [...serving.node.exchange.sessions.all()].some(({ facts }) => facts.tools[0] === tool),
    );
    const callId = await open("own");
    expect((await poll).claims.map((claim) => claim.callId)).toEqual([callId]);
  });

  test("does nothing to claims of others, not by their exact ids, and learns nothing of them (I2, I7)", async () => {
    const { tool, open, workers, call } = await stage();
    const who = { sessionId: randomUUID(), nonce: randomBytes(16).toString("base64url"), tools: [tool] };
    const callId = await open("own");
    const holder = await opened(workers.key.work({ ...who, slots: 1 }));
    const claim = await holder.claimOf(callId);
    const held = { callId, claimId: claim.claimId };
    const missing = { callId: `${callId.split("/")[0]}/99`, claimId: claim.claimId };
    const thief = workers.ofAnother.polls({ ...who, slots: 0 });
    const stream = await opened(workers.ofAnother.work({ ...who, slots: 0, claims: [held] }));
    expect(await stream.verdicts()).toEqual({ [claim.claimId]: "LOST" });
    expect(await stream.beat(claim)).toEqual([claim.claimId]);
    stream.send({ releases: [claim.claimId] });
    expect(await stream.refusal(claim.claimId)).toBe("CLAIM_LOST");
    for (const each of [claim, missing]) {
      stream.acks.splice(0);
      stream.answer(each, '"stolen"');
      expect(await stream.refusal(each.claimId)).toBe("NOT_FOUND");
      expect(refusal(await thief.answer(each, '"stolen"'))).toBe("NOT_FOUND");
      expect(refusal(await thief.defer({ ...each, secret: "A".repeat(43) }))).toBe("NOT_FOUND");
      expect((await thief.release(each)).map(refusal)).toEqual(["NOT_FOUND"]);
    }
    await stream.close();
    expect(standings(await thief.poll(0, [claim]))).toEqual({ [claim.claimId]: "LOST" });
    expect(await thief.beat([claim])).toMatchObject({ confirmed: [], lost: [claim.claimId] });
    expect(await call(callId)).toMatchObject({ state: CallState.CLAIMED, attempt: 1 });
    holder.answer(claim, '"mine"');
    expect(await holder.refusal(claim.claimId)).toBeUndefined();
    expect((await call(callId)).resultJson).toBe('"mine"');
  });

  test("is another session than a worker of its id with any other credential, whichever says hello last", async () => {
    const { tool, open, workers } = await stage();
    const sessionId = randomUUID();
    const hello = () => ({ ...newHello(), sessionId, tools: [tool], slots: 1 });
    const callId = await open("own");
    const ofRun = await opened(workers.ofRun.work(hello()));
    const claim = await ofRun.claimOf(callId);
    for (const name of ["key", "ofUser", "ofAnother"] as const) {
      const stream = await opened(workers[name].work(hello()));
      expect(await stream.beat(claim)).toEqual([claim.claimId]);
      const apart = workers[name].polls({ ...hello(), slots: 0 });
      expect(await reasonOf(apart.poll(0, [claim]))).toBe("SESSION_IN_USE");
    }
    expect(await reasonOf(workers.ofRun.polls(hello()).poll(0))).toBe("SESSION_IN_USE");
    expect(await ofRun.beat(claim)).toEqual([]);
    ofRun.answer(claim, "1");
    expect(await ofRun.refusal(claim.claimId)).toBeUndefined();
  });
});

test("a poll whose credential is revoked while claims are on their way to it gets none: they go to others, unspent", async () => {
  const { tool, open, workers, call } = await stage();
  const refused = new TrunklineError("UNAUTHENTICATED", "the key was revoked");
  class Revoked extends WorkPoll {
    override offer(delivery: Delivery): void {
      super.offer(delivery);
      this.expelled(refused);
    }
  }
  const { deps } = serving.node;
  const scope = { projectId: 1, namespace: null };
  const caller = {
    kind: "key",
    id: "k",
    scope,
    rights: new Set(["worker"] as const),
    expiresAt: null,
  } as const;
  const poll = new Revoked(deps, caller, new AbortController().signal);
  const callId = await open("own");
  await expect(poll.run(create(HelloSchema, newHello({ tools: [tool] })), 10_000)).rejects.toBe(refused);
  const next = await opened(workers.key.work({ tools: [tool] }));
  const claim = await next.claimOf(callId, 2);
  expect(await call(callId)).toMatchObject({ attempt: 2, spent: 1 });
  next.answer(claim, "1");
  expect(await next.refusal(claim.claimId)).toBeUndefined();
});

test("requests that wait, and streams, end when their token expires, at the latest an interval later", async () => {
  const { root, tool, runs, open } = await stage();
  const callId = await open("foreign");
  const namespace = (await root.runs.getRun({ runId: runs.foreign })).run!.namespace;
  const { token, expiresAt } = await root.admin.createToken({
    namespace,
    scopes: [WORKER, HARNESS],
    ttl: { nanos: 1_000_000 },
  });
  const user = bearer(serving.node.url, token);
  const work = await opened(user.work({ tools: ["other"] }));
  const drive = lively(user.drive(), ping);
  const ends = await Promise.all([
    work.end(),
    drive.end(),
    reasonOf(user.polls({ tools: [`${tool}-other`] }).poll(30_000)),
    reasonOf(user.calls.waitCalls({ calls: [{ callId }], timeout: { seconds: 30n } })),
  ]);
  const lateMs = Date.now() - Number(expiresAt!.seconds) * 1_000;
  await drive.close();
  expect(ends).toEqual(ends.map(() => "UNAUTHENTICATED"));
  expect(lateMs).toBeGreaterThanOrEqual(0);
  expect(lateMs).toBeLessThan(3_000);
  expect(await reasonOf(user.runs.getRun({ runId: runs.foreign }))).toBe("UNAUTHENTICATED");
});
