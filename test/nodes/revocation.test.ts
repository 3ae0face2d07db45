import { randomUUID } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { KeyScope } from "@trunkline/proto/admin";
import { CallState, FailureKind, PolicyMode } from "@trunkline/proto/model";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { beat, bearer, lively, ping, type Bearer } from "../service/bearer.js";
import { TestNode, useNode } from "../service/node.js";
import { reasonOf } from "../service/poll-client.js";
import type { WorkClient } from "../service/raw-stream.js";
import { until } from "../support/until.js";

const ROOT = "root-key-of-the-test";
const INTERVAL_MS = 200;
const options = { rootKey: ROOT, heartbeatIntervalMs: INTERVAL_MS };
const serving = useNode(options);
let second: TestNode;

beforeAll(async () => {
  second = await TestNode.start(serving.database, options);
});
afterAll(() => second.stop());

const { WORKER, HARNESS } = KeyScope;

/** A worker's credential that is good, and its end by way of the other node. */
interface Victim extends Bearer {
  readonly revoke: () => Promise<unknown>;
}

const KINDS = ["key", "token", "signing key"] as const;

/** Whoever uses the first node; the second one revokes. */
async function victimOf(kind: (typeof KINDS)[number]): Promise<Victim> {
  const root = bearer(second.url, ROOT).admin;
  const { url } = serving.node;
  const scopes = [WORKER, HARNESS];
  if (kind === "key") {
    const { key, secret } = await root.createKey({ name: "victim", scopes });
    return { ...bearer(url, secret), revoke: () => root.revokeKey({ keyId: key!.id }) };
  }
  const { token, tokenId } = await root.createToken({ namespace: "ada", scopes });
  const revoke = () => (kind === "token" ? root.revokeToken({ tokenId }) : root.rotateSigningKey({}));
  return { ...bearer(url, token), revoke };
}

/** A call of a tool that nobody else serves, held by the victim's worker. */
async function held(victim: Victim, mode: PolicyMode) {
  const root = bearer(second.url, ROOT);
  const tool = randomUUID();
  const { run } = await root.runs.createRun({ spec: { namespace: "ada" } });
  const who = { sessionId: randomUUID(), nonce: randomUUID(), worker: "victim", sdk: "raw/1" };
  const hello = { ...who, tools: [tool], slots: 1 };
  const names = mode === PolicyMode.RETRY ? beat : (stream: WorkClient) => stream.send({ heartbeat: {} });
  const worker = lively(await victim.work(hello), names);
  const policy = { mode, heartbeatTimeout: durationFromMs(3 * INTERVAL_MS), detachGrace: durationFromMs(1) };
  const opened = await root.calls.openCalls({ runId: run!.id, calls: [{ tool, policy }] });
  const result = opened.results[0]?.result;
  const callId = result?.case === "opened" ? result.value.callId : expect.fail("not opened");
  const claim = await worker.claimOf(callId);
  const call = async () => (await root.calls.getCall({ call: { callId } })).call;
  const ended = () =>
    until("the call has ended", async () => {
      const now = await call();
      return now?.endedAt !== undefined && now;
    });
  return { victim, root, tool, hello, worker, callId, claim, call, ended };
}

/** Revokes, and tells how the stream ends, and after how long. */
async function revoked({ worker, victim }: Awaited<ReturnType<typeof held>>) {
  await victim.revoke();
  const revokedAt = performance.now();
  return { end: await worker.end(), afterMs: performance.now() - revokedAt };
}

describe.each(KINDS)("a credential that is revoked on another node (%s)", (kind) => {
  test("is good for nothing within an interval: streams and requests that wait end, and new ones are refused", async () => {
    const stage = await held(await victimOf(kind), PolicyMode.RETRY);
    const { victim, callId } = stage;
    const drive = lively(victim.drive(), ping);
    await drive.newRun();
    const waits = [
      reasonOf(victim.polls({ tools: [randomUUID()] }).poll(30_000)),
      reasonOf(victim.calls.waitCalls({ calls: [{ callId }], timeout: { seconds: 30n } })),
      drive.end(),
    ];
    const { end, afterMs } = await revoked(stage);
    expect([end, ...(await Promise.all(waits))]).toEqual(new Array(4).fill("UNAUTHENTICATED"));
    expect(await reasonOf(victim.calls.getCall({ call: { callId } }))).toBe("UNAUTHENTICATED");
    // An interval, and what a busy machine adds.
    expect(afterMs).toBeLessThan(INTERVAL_MS + 3_000);
    await drive.close();
  });
});

describe("the claims of a worker whose credential is revoked", () => {
  test("are offered to others after their heartbeat timeout, where they may be retried", async () => {
    const stage = await held(await victimOf("key"), PolicyMode.RETRY);
    const { root, victim, tool, worker, callId, claim, ended } = stage;
    worker.accept(claim);
    expect((await revoked(stage)).end).toBe("UNAUTHENTICATED");
    const gone = victim.polls();
    expect(await reasonOf(gone.answer(claim, '"late"'))).toBe("UNAUTHENTICATED");
    expect(await reasonOf(gone.beat([claim]))).toBe("UNAUTHENTICATED");
    const next = lively(await root.work({ tools: [tool], slots: 1 }), beat);
    next.answer(await next.claimOf(callId, 2), '"again"');
    expect(await ended()).toMatchObject({ state: CallState.SUCCEEDED, attempt: 2, resultJson: '"again"' });
    await next.close();
  });

  test("end with an unknown outcome where they may have begun and must not be done twice (I3)", async () => {
    const stage = await held(await victimOf("token"), PolicyMode.AT_MOST_ONCE);
    const { worker, claim, ended } = stage;
    worker.accept(claim);
    await worker.when("its confirmation", () => worker.confirmed.includes(claim.claimId));
    expect((await revoked(stage)).end).toBe("UNAUTHENTICATED");
    expect(await ended()).toMatchObject({
      state: CallState.FAILED,
      failure: { kind: FailureKind.WORKER_LOST, outcomeUnknown: true },
    });
  });

  test("that were not begun are offered to others, unspent", async () => {
    const stage = await held(await victimOf("key"), PolicyMode.AT_MOST_ONCE);
    const { root, tool, callId, claim, call } = stage;
    expect((await revoked(stage)).end).toBe("UNAUTHENTICATED");
    const next = lively(await root.work({ tools: [tool], slots: 1 }), (stream) =>
      stream.send({ heartbeat: {} }),
    );
    const again = await next.claimOf(callId, 2);
    expect(again.claimId).not.toBe(claim.claimId);
    expect(await call()).toMatchObject({ attempt: 2, spent: 0 });
    await next.close();
  });

  test("are kept by the same worker under its next credential, if that reaches the same", async () => {
    const stage = await held(await victimOf("token"), PolicyMode.RETRY);
    const { root, hello, worker, callId, claim, ended } = stage;
    worker.accept(claim);
    const { token } = await root.admin.createToken({ namespace: "ada", scopes: [WORKER] });
    expect((await revoked(stage)).end).toBe("UNAUTHENTICATED");
    const named = { ...hello, slots: 0, claims: [{ callId, claimId: claim.claimId }] };
    const next = lively(await bearer(serving.node.url, token).work(named), beat);
    expect(await next.verdicts()).toEqual({ [claim.claimId]: "KEPT" });
    next.answer(claim, "1");
    expect(await ended()).toMatchObject({ state: CallState.SUCCEEDED, attempt: 1 });
    await next.close();
  });
});
