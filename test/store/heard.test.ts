import { beforeEach, describe, expect, test } from "vitest";
import { resolvePolicy } from "../../server/src/core/policy.js";
import { hearSessions, lapsedClaims, registerNode } from "../../server/src/store/sessions.js";
import { helloSession, makeRun, makeSession, newHello, NODE, openCall, useStore } from "./fixture.js";

const store = useStore();

const INTERVAL_MS = 1_000;

beforeEach(async () => {
  await store.database.pool().query("TRUNCATE calls, sessions, nodes");
  await registerNode(store.db, NODE, "one", INTERVAL_MS);
});

/** Everything of which a lease is made, as if so much time had gone by while this node lived. */
async function pass(seconds: number): Promise<void> {
  const pool = store.database.pool();
  await pool.query("UPDATE calls SET claimed_at = claimed_at - $1 * interval '1 s'", [seconds]);
  await pool.query("UPDATE sessions SET last_heard_at = last_heard_at - $1 * interval '1 s'", [seconds]);
  await pool.query("UPDATE nodes SET renewed_at = renewed_at - $1 * interval '1 s' WHERE id <> $2", [
    seconds,
    NODE,
  ]);
  await pool.query("UPDATE lease_floor SET floor_at = floor_at - $1 * interval '1 s'", [seconds]);
}

const lapsed = async (): Promise<string[]> =>
  (await lapsedClaims(store.db, INTERVAL_MS, 100)).map(({ runId }) => runId);

async function polling(nodeId: string) {
  const hello = newHello({ nodeId, polls: true });
  const session = await makeSession(store.db, hello);
  const call = await openCall(store.db, await makeRun(store.db), 1, {
    session,
    policy: resolvePolicy({ heartbeatTimeoutMs: 60_000, detachGraceMs: 10_000 }, {}, INTERVAL_MS),
  });
  return { hello, session, call };
}

describe("the claims of a session that polls", () => {
  test("outlive the node that it polled last, and end by their heartbeat timeout", async () => {
    await registerNode(store.db, "node-2", "two", INTERVAL_MS);
    const { call } = await polling("node-2");
    await pass(50);
    expect(await lapsed()).toEqual([]);
    await pass(11);
    expect(await lapsed()).toEqual([call.runId]);
  });

  test("live on by a sign of life at any node, which tells what they are", async () => {
    const { hello, call } = await polling(NODE);
    await pass(50);
    expect(await hearSessions(store.other, [hello, hello])).toEqual([
      { type: "ok", claims: [call] },
      { type: "ok", claims: [call] },
    ]);
    await pass(50);
    expect(await lapsed()).toEqual([]);
  });

  test("do not live by what another process, project or end user says (I7)", async () => {
    const { hello, call } = await polling(NODE);
    await pass(50);
    const signs = [
      { ...hello, nonce: "another" },
      { ...hello, scope: { projectId: 2, namespace: null } },
      { ...hello, scope: { projectId: 1, namespace: "alice" } },
    ];
    expect(await hearSessions(store.db, signs)).toEqual([
      { type: "taken_over" },
      { type: "unknown" },
      { type: "unknown" },
    ]);
    await pass(11);
    expect(await lapsed()).toEqual([call.runId]);
  });

  test("are lost to another process, which is not refused; a stream attaches the session", async () => {
    const { hello } = await polling(NODE);
    expect(await helloSession(store.db, { ...hello, nonce: "another" })).toMatchObject({ takenOver: true });
    await helloSession(store.db, { ...hello, polls: false });
    expect(await helloSession(store.db, { ...hello, nonce: "third", streamOpenHere: true })).toEqual({
      type: "in_use",
    });
  });
});
