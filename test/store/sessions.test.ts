import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import type { Scope } from "../../server/src/core/scope.js";
import { resolvePolicy, type PolicyPatch } from "../../server/src/core/policy.js";
import {
  aliveNodes,
  detachSessions,
  lapsedClaims,
  registerNode,
  removeNode,
  renewSessions,
  sessionClaims,
  toolsSeen,
  type Hello,
} from "../../server/src/store/sessions.js";
import {
  apply,
  helloSession,
  makeRun,
  makeSession,
  newHello,
  newName,
  NODE,
  openCall,
  PROJECT,
  SCOPE,
  useStore,
  type TestSession,
} from "./fixture.js";

const store = useStore();

const INTERVAL_MS = 1_000;

/** Moves everything that a lease is made of into the past, as if so much time had gone by. */
async function pass(
  seconds: number,
  tables: readonly string[] = ["calls", "sessions", "nodes", "lease_floor"],
) {
  const columns: Readonly<Record<string, readonly string[]>> = {
    calls: ["claimed_at"],
    sessions: ["last_heard_at", "detached_at"],
    nodes: ["renewed_at"],
    lease_floor: ["floor_at"],
  };
  for (const table of tables) {
    const moved = (columns[table] ?? [])
      .map((column) => `${column} = ${column} - $1 * interval '1 s'`)
      .join(", ");
    await store.database.pool().query(`UPDATE ${table} SET ${moved}`, [seconds]);
  }
}

async function openHeld(session: TestSession, policy: PolicyPatch = {}): Promise<Call> {
  return openCall(store.db, await makeRun(store.db), 1, {
    session,
    policy: resolvePolicy({ heartbeatTimeoutMs: 60_000, detachGraceMs: 10_000, ...policy }, {}, INTERVAL_MS),
  });
}

async function lapsed(): Promise<string[]> {
  return (await lapsedClaims(store.db, INTERVAL_MS, 100)).map(({ runId }) => runId).sort();
}

const renew = async (session: TestSession, heardMsAgo: number, node = NODE): Promise<readonly number[]> =>
  (await renewSessions(store.db, node, INTERVAL_MS, [{ ...session, heardMsAgo }])).kept;

beforeEach(async () => {
  await store.database.pool().query("TRUNCATE calls, sessions, nodes");
  await registerNode(store.db, NODE, "one", INTERVAL_MS);
});

describe("helloSession", () => {
  test("counts the epoch up with each hello, on any node, and keeps the number", async () => {
    const hello = newHello();
    const first = await helloSession(store.db, hello);
    const second = await helloSession(store.db, { ...hello, nodeId: "node-2" });
    expect(first).toMatchObject({ type: "ok", epoch: 1, takenOver: false, claims: [] });
    expect(second).toMatchObject({ type: "ok", epoch: 2, takenOver: false });
    expect("number" in first && first.number).toBe("number" in second && second.number);
  });

  test("of two at once one comes after the other, with epochs of their own", async () => {
    const hello = newHello();
    const answers = await Promise.all([helloSession(store.db, hello), helloSession(store.other, hello)]);
    expect(answers.map((answer) => "epoch" in answer && answer.epoch).sort()).toEqual([1, 2]);
  });

  test("that was held up until a later one of its process was taken is outrun, and changes nothing", async () => {
    const hello = newHello({ helloNumber: 2 });
    const session = await makeSession(store.db, hello);
    expect(await helloSession(store.other, { ...hello, helloNumber: 1, nodeId: "node-2" })).toEqual({
      type: "outrun",
    });
    expect(await renew(session, 0)).toEqual([session.number]);
    // The same one again may be one that nobody knows to have been done.
    for (const helloNumber of [2, 3, 0]) {
      expect(await helloSession(store.db, { ...hello, helloNumber })).toMatchObject({ type: "ok" });
    }
    const another = { ...hello, nonce: newName("nonce"), helloNumber: 1 };
    expect(await helloSession(store.db, another)).toMatchObject({ type: "ok", takenOver: true });
  });

  test("reads all live claims of the session, and no others", async () => {
    const hello = newHello();
    const session = await makeSession(store.db, hello);
    const [held, released] = [await openHeld(session), await openHeld(session)];
    await apply(store.db, released, { type: "release", claimId: released.claim?.id ?? "" });
    await openHeld(await makeSession(store.db));
    expect(await helloSession(store.db, hello)).toMatchObject({ claims: [held] });
  });

  test("under one id is another session for another project or end user (I7)", async () => {
    const hello = newHello();
    const scopes = [
      { projectId: 1, namespace: null },
      { projectId: 1, namespace: "alice" },
      { projectId: 2, namespace: null },
    ];
    const sessions = [];
    for (const scope of scopes) sessions.push(await makeSession(store.db, { ...hello, scope }));
    expect(new Set(sessions.map(({ number }) => number)).size).toBe(3);
  });

  describe("of another process", () => {
    const again = (hello: Hello, patch: Partial<Hello>) =>
      helloSession(store.db, { ...hello, nonce: newName("nonce"), ...patch });

    test("is refused while this node has the session's stream open, and changes nothing", async () => {
      const hello = newHello();
      const session = await makeSession(store.db, hello);
      expect(await again(hello, { streamOpenHere: true })).toEqual({ type: "in_use" });
      expect(await renew(session, 0)).toEqual([session.number]);
      expect(await again(hello, { streamOpenHere: false })).toMatchObject({
        type: "ok",
        takenOver: true,
        epoch: 2,
      });
    });

    test("is refused while the session is attached to another node that lives, not to one that died", async () => {
      const hello = newHello();
      await makeSession(store.db, hello);
      expect(await again(hello, { nodeId: "node-2" })).toEqual({ type: "in_use" });
      await pass(4, ["nodes"]);
      expect(await again(hello, { nodeId: "node-2" })).toMatchObject({ type: "ok", takenOver: true });
    });

    test.each(["closed", "silent"] as const)(
      "takes over a session whose stream is %s, on any node",
      async (how) => {
        const hello = newHello();
        const session = await makeSession(store.db, hello);
        await detachSessions(store.db, [{ ...session, how }]);
        expect(await again(hello, { nodeId: "node-2" })).toMatchObject({ type: "ok", takenOver: true });
      },
    );

    test("takes over a session that drained", async () => {
      const hello = newHello();
      const session = await makeSession(store.db, hello);
      await detachSessions(store.db, [{ ...session, how: "done" }]);
      expect(await again(hello, { nodeId: "node-2" })).toMatchObject({ type: "ok", takenOver: true });
    });
  });
});

describe("what a node does with an old epoch", () => {
  test("does nothing: no renewal, no detachment, no close", async () => {
    const hello = newHello();
    const old = await makeSession(store.db, hello);
    const held = await openHeld(old);
    const now = await makeSession(store.db, { ...hello, nodeId: "node-2" });
    await pass(100, ["calls", "sessions"]);
    expect(await renew(old, 0)).toEqual([]);
    await detachSessions(store.db, [{ ...old, how: "closed" }]);
    await detachSessions(store.db, [{ ...old, how: "done" }]);
    const { rows } = await store.database
      .pool()
      .query("SELECT state, detached_at FROM sessions WHERE id = $1", [now.number]);
    expect(rows).toEqual([{ state: "attached", detached_at: null }]);
    await pass(100, ["lease_floor"]);
    expect(await lapsed()).toEqual([held.runId]);
  });
});

describe("a lease", () => {
  test("ends the heartbeat timeout after the session was last heard of, not after its node renewed it", async () => {
    const session = await makeSession(store.db);
    const held = await openHeld(session);
    await pass(100);
    expect(await renew(session, 70_000)).toEqual([session.number]);
    await pass(100, ["lease_floor"]);
    expect(await lapsed()).toEqual([held.runId]);
    await renew(session, 50_000);
    expect(await lapsed()).toEqual([]);
  });

  test("is not shortened by a renewal that arrives late", async () => {
    const session = await makeSession(store.db);
    await openHeld(session);
    await pass(100);
    await renew(session, 0);
    await renew(session, 90_000);
    await pass(100, ["lease_floor"]);
    expect(await lapsed()).toEqual([]);
  });

  test("counts from the claim where that came after the last sign of life", async () => {
    const session = await makeSession(store.db);
    const held = await openHeld(session);
    await pass(61, ["sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
    await pass(61, ["calls"]);
    expect(await lapsed()).toEqual([held.runId]);
  });

  test("of a call that has ended, was deferred or is queued again never ends", async () => {
    const session = await makeSession(store.db);
    const calls = [await openHeld(session), await openHeld(session), await openHeld(session)];
    const claimIds = calls.map(({ claim }) => claim?.id ?? "");
    await apply(store.db, calls[0]!, {
      type: "defer",
      claimId: claimIds[0]!,
      tokenHash: "00",
      timeoutMs: null,
    });
    await apply(store.db, calls[1]!, { type: "release", claimId: claimIds[1]! });
    await apply(store.db, calls[2]!, { type: "cancel", cause: "canceled" });
    await pass(1_000, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
  });

  test("ends after the grace where the worker closed its stream: under retry only", async () => {
    const session = await makeSession(store.db);
    const retry = await openHeld(session);
    const once = await openHeld(session, { mode: "at_most_once" });
    await detachSessions(store.db, [{ ...session, how: "closed" }]);
    await pass(9, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
    await pass(2, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([retry.runId]);
    await pass(60, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([retry.runId, once.runId].sort());
  });

  test("goes on where the stream went silent, until the heartbeat timeout (B12)", async () => {
    const session = await makeSession(store.db);
    const held = await openHeld(session);
    await detachSessions(store.db, [{ ...session, how: "silent" }]);
    await pass(50, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
    await pass(11, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([held.runId]);
  });

  test("is kept by a hello that attaches the session again, on any node", async () => {
    const hello = newHello();
    const session = await makeSession(store.db, hello);
    await openHeld(session);
    await detachSessions(store.db, [{ ...session, how: "closed" }]);
    await pass(11, ["calls", "sessions", "lease_floor"]);
    await makeSession(store.db, { ...hello, nodeId: "node-2" });
    expect(await lapsed()).toEqual([]);
  });

  test("of a session on a dead node ends by the grace, counted from three intervals after its last renewal", async () => {
    await registerNode(store.db, "node-2", "two", INTERVAL_MS);
    const session = await makeSession(store.db, { nodeId: "node-2" });
    const held = await openHeld(session);
    const seconds = async (count: number): Promise<void> => {
      await pass(count);
      await registerNode(store.db, NODE, "one", INTERVAL_MS);
      await pass(1_000, ["lease_floor"]);
    };
    await seconds(12);
    expect(await lapsed()).toEqual([]);
    await seconds(2);
    expect(await lapsed()).toEqual([held.runId]);
  });

  test("of a node that shut down and was removed goes on until the heartbeat timeout", async () => {
    await registerNode(store.db, "node-2", "two", INTERVAL_MS);
    const session = await makeSession(store.db, { nodeId: "node-2" });
    const held = await openHeld(session);
    await removeNode(store.db, "node-2");
    await pass(40, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
    await pass(21, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([held.runId]);
  });
});

describe("the lease floor", () => {
  /** One session that is still attached, and one whose worker had closed its stream. */
  async function openTwo(): Promise<void> {
    const [attached, detached] = [await makeSession(store.db), await makeSession(store.db)];
    await openHeld(attached);
    await openHeld(detached);
    await detachSessions(store.db, [{ ...detached, how: "closed" }]);
  }

  const revivals = [
    { name: "sweep", revive: () => lapsedClaims(store.db, INTERVAL_MS, 100) },
    { name: "renewal", revive: () => renewSessions(store.db, NODE, INTERVAL_MS, []) },
    { name: "hello", revive: () => makeSession(store.db) },
    { name: "start of a node", revive: () => registerNode(store.db, NODE, "one", INTERVAL_MS) },
  ];

  test.each(revivals)(
    "keeps all leases when no node lived for an hour and a $name comes first",
    async ({ revive }) => {
      await openTwo();
      await pass(3_600);
      await revive();
      await registerNode(store.db, NODE, "one", INTERVAL_MS);
      expect(await lapsed()).toEqual([]);
      await pass(50);
      await renewSessions(store.db, NODE, INTERVAL_MS, []);
      expect(await lapsed()).toEqual([]);
    },
  );

  test("after it leases end again as ever, the grace only for streams that closed later", async () => {
    await openTwo();
    await pass(3_600);
    await renewSessions(store.db, NODE, INTERVAL_MS, []);
    await pass(30, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toEqual([]);
    await pass(31, ["calls", "sessions", "lease_floor"]);
    expect(await lapsed()).toHaveLength(2);
  });

  test("stays where it is while one node lives", async () => {
    const floor = async (): Promise<unknown> =>
      (await store.database.pool().query("SELECT floor_at FROM lease_floor")).rows[0];
    const before = await floor();
    await renewSessions(store.db, NODE, INTERVAL_MS, []);
    await lapsedClaims(store.db, INTERVAL_MS, 1);
    await makeSession(store.db);
    expect(await floor()).toEqual(before);
  });
});

describe("sessionClaims", () => {
  test("reads the live claims that are old enough, of these sessions in their epochs", async () => {
    const [one, two, three] = [
      await makeSession(store.db),
      await makeSession(store.db),
      await makeSession(store.db),
    ];
    const old = [await openHeld(one), await openHeld(two), await openHeld(three)];
    await pass(10, ["calls"]);
    await openHeld(one);
    const claims = await sessionClaims(store.db, [one, two], 5_000);
    expect(claims.map(({ runId }) => runId).sort()).toEqual([old[0]!.runId, old[1]!.runId].sort());
    expect(await sessionClaims(store.db, [], 0)).toEqual([]);
  });
});

describe("nodes and tools", () => {
  test("a node is alive for three intervals after its last renewal", async () => {
    await registerNode(store.db, "node-2", "two", INTERVAL_MS);
    expect(await aliveNodes(store.db, INTERVAL_MS)).toBe(2);
    await pass(4, ["nodes"]);
    expect(await aliveNodes(store.db, INTERVAL_MS)).toBe(0);
    await renewSessions(store.db, "node-3", INTERVAL_MS, []);
    expect(await aliveNodes(store.db, INTERVAL_MS)).toBe(1);
    await removeNode(store.db, "node-3");
    expect(await aliveNodes(store.db, INTERVAL_MS)).toBe(0);
  });

  test("a renewal tells whether another node is alive, with sessions and without", async () => {
    const session = await makeSession(store.db);
    const items = [{ ...session, heardMsAgo: 0 }];
    expect(await renewSessions(store.db, NODE, INTERVAL_MS, items)).toEqual({
      kept: [session.number],
      othersAlive: false,
      accessVersion: 1,
    });
    await registerNode(store.db, "node-2", "two", INTERVAL_MS);
    expect(await renewSessions(store.db, NODE, INTERVAL_MS, items)).toMatchObject({ othersAlive: true });
    await pass(4, ["nodes"]);
    expect(await renewSessions(store.db, NODE, INTERVAL_MS, [])).toMatchObject({
      kept: [],
      othersAlive: false,
    });
    expect(await renewSessions(store.db, "node-2", INTERVAL_MS, [])).toMatchObject({
      kept: [],
      othersAlive: true,
    });
  });

  test("a tool is seen while a session that serves it and may take the call was heard of lately (I7)", async () => {
    const ofAlice = { ...SCOPE, namespace: "alice" };
    const ofRun = { ...ofAlice, runId: randomUUID() };
    await makeSession(store.db, { tools: ["echo", "add"] });
    await makeSession(store.db, { tools: ["hers"], scope: ofAlice });
    await makeSession(store.db, { tools: ["its"], scope: ofRun });
    const seen = (scope: Scope) =>
      toolsSeen(store.db, scope, ["add", "none", "echo", "hers", "its"], 300_000);
    expect(await seen(SCOPE)).toEqual(["add", "echo"]);
    expect(await seen({ ...SCOPE, namespace: "bob" })).toEqual(["add", "echo"]);
    expect(await seen({ ...ofAlice, runId: randomUUID() })).toEqual(["add", "echo", "hers"]);
    expect(await seen(ofRun)).toEqual(["add", "echo", "hers", "its"]);
    expect(await seen({ ...SCOPE, projectId: PROJECT + 1 })).toEqual([]);
    await pass(301, ["sessions"]);
    expect(await seen(ofRun)).toEqual([]);
  });
});
