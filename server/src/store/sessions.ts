import type { Call } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { isAlive, raiseFloor } from "./nodes.js";
import { CALL_COLUMNS, toCall, type CallRow } from "./rows.js";
import { sameSession, statement } from "./statement.js";

export { lapsedClaims, sessionClaims } from "./leases.js";
export { aliveNodes, registerNode, removeNode } from "./nodes.js";

/** A worker's hello. */
export interface Hello {
  /** Its credential's. */
  readonly scope: Scope;
  /** Made by the worker. */
  readonly sessionId: string;
  /** Of the worker's process. */
  readonly nonce: string;
  readonly worker: string;
  readonly sdk: string;
  readonly tools: readonly string[];
  readonly toolset: string | null;
  /** The node that took the hello. */
  readonly nodeId: string;
  /** The node's heartbeat interval. */
  readonly intervalMs: number;
  /** Whether this node has an open stream of the session. */
  readonly streamOpenHere: boolean;
}

/** What a hello came to. */
export type HelloOutcome =
  | {
      readonly type: "ok";
      /** The server's number of the session. */
      readonly number: number;
      readonly epoch: number;
      /** Another process had the session before. */
      readonly takenOver: boolean;
      /** All its live claims. */
      readonly claims: readonly Call[];
    }
  /** Another process has an open stream of the session. */
  | { readonly type: "in_use" };

/** A session as one epoch knows it; with an older one nothing is done. */
export interface SessionEpoch {
  readonly number: number;
  readonly epoch: number;
}

interface LockedRow {
  readonly id: number;
  readonly nonce: string;
  readonly attached: boolean;
  readonly node_id: string;
  readonly node_alive: boolean;
}

interface MovedRow {
  readonly id: number;
  readonly epoch: number;
}

const FLOOR = statement("session_floor", raiseFloor("$1::bigint"));

const LOCK = statement(
  "session_lock",
  `SELECT s.id, s.nonce, s.state = 'attached' AS attached, s.node_id,
    EXISTS (SELECT FROM nodes n WHERE n.id = s.node_id AND ${isAlive("$4::bigint")}) AS node_alive
  FROM sessions s
  WHERE s.project_id = $1 AND s.session_id = $2 AND s.namespace = $3
  FOR UPDATE OF s`,
);

const PLACE = statement(
  "session_place",
  `INSERT INTO sessions (project_id, session_id, namespace, nonce, node_id, worker, sdk, tools, toolset, epoch, state)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, 'attached')
  ON CONFLICT DO NOTHING
  RETURNING id, epoch`,
);

const MOVE = statement(
  "session_move",
  `UPDATE sessions SET nonce = $3, node_id = $4, worker = $5, sdk = $6, tools = $7, toolset = $8,
    epoch = epoch + 1, state = 'attached', detached_at = NULL, last_heard_at = now()
  WHERE project_id = $1 AND id = $2
  RETURNING id, epoch`,
);

const CLAIMS = statement(
  "session_claims",
  `SELECT ${CALL_COLUMNS} FROM calls c WHERE c.project_id = $1 AND c.session = $2 AND c.state = 'claimed'`,
);

/**
 * Moves a session to this node, with the next epoch; makes it where it is new. The session's row is locked
 * throughout, so that no claim is made for the epoch before once its claims have been read.
 */
export async function helloSession(db: Database, hello: Hello): Promise<HelloOutcome> {
  const { projectId } = hello.scope;
  return db.transaction(async (tx): Promise<HelloOutcome> => {
    await tx.query(FLOOR, [hello.intervalMs]);
    let locked = await lock(tx, hello);
    if (locked === undefined) {
      const placed = await place(tx, hello);
      if (placed !== undefined) {
        return { type: "ok", number: placed.id, epoch: placed.epoch, takenOver: false, claims: [] };
      }
      locked = await lock(tx, hello);
    }
    if (locked === undefined || isInUse(locked, hello)) return { type: "in_use" };
    const takenOver = locked.nonce !== hello.nonce;
    const [moved] = await tx.query<MovedRow>(MOVE, [projectId, locked.id, hello.nonce, ...facts(hello)]);
    const claims = await tx.query<CallRow>(CLAIMS, [projectId, locked.id]);
    return { type: "ok", number: locked.id, epoch: moved?.epoch ?? 0, takenOver, claims: claims.map(toCall) };
  });
}

async function lock(tx: Database, { scope, sessionId, intervalMs }: Hello): Promise<LockedRow | undefined> {
  const values = [scope.projectId, sessionId, scope.namespace ?? "", intervalMs];
  return (await tx.query<LockedRow>(LOCK, values))[0];
}

async function place(tx: Database, hello: Hello): Promise<MovedRow | undefined> {
  const { scope, sessionId, nonce } = hello;
  const values = [scope.projectId, sessionId, scope.namespace ?? "", nonce, ...facts(hello)];
  return (await tx.query<MovedRow>(PLACE, values))[0];
}

function facts({ nodeId, worker, sdk, tools, toolset }: Hello): unknown[] {
  return [nodeId, worker, sdk, textArray(tools), toolset];
}

/** Whether another process has a stream open: here this node knows, elsewhere its node must be alive. */
function isInUse(locked: LockedRow, hello: Hello): boolean {
  if (locked.nonce === hello.nonce || !locked.attached) return false;
  return locked.node_id === hello.nodeId ? hello.streamOpenHere : locked.node_alive;
}

/** A session's sign of life. */
export interface Renewal extends SessionEpoch {
  /** How long ago anything was heard of it. */
  readonly heardMsAgo: number;
}

const RENEW = statement(
  "session_renew",
  `WITH raised AS (
    ${raiseFloor("$2::bigint")}
  ), node AS (
    INSERT INTO nodes (id, name, interval_ms) VALUES ($1, '', $2)
    ON CONFLICT (id) DO UPDATE SET renewed_at = now(), interval_ms = $2
  )
  UPDATE sessions s SET
    last_heard_at = greatest(s.last_heard_at, now() - i.heard_ms * interval '1 millisecond')
  FROM unnest($3::bigint[], $4::integer[], $5::bigint[]) AS i (id, epoch, heard_ms)
  WHERE ${sameSession("s", "i")} AND s.epoch = i.epoch AND s.node_id = $1
  RETURNING s.id`,
);

/**
 * Renews a node and its sessions, in one statement, and raises the lease floor where no node was alive.
 *
 * @returns the numbers of those sessions that are still this node's, in that epoch
 */
export async function renewSessions(
  db: Database,
  nodeId: string,
  intervalMs: number,
  items: readonly Renewal[],
): Promise<number[]> {
  const sorted = [...items].sort((a, b) => a.number - b.number);
  const rows = await db.query<{ readonly id: number }>(RENEW, [
    nodeId,
    intervalMs,
    numberArray(sorted.map(({ number }) => number)),
    numberArray(sorted.map(({ epoch }) => epoch)),
    numberArray(sorted.map(({ heardMsAgo }) => Math.max(0, Math.round(heardMsAgo)))),
  ]);
  return rows.map(({ id }) => id);
}

/** A session whose stream has ended: `closed` by the worker's side without drain, or gone `silent`. */
export interface Detachment extends SessionEpoch {
  readonly how: "closed" | "silent";
}

const DETACH = statement(
  "session_detach",
  `UPDATE sessions s SET state = i.state, detached_at = now()
  FROM unnest($1::bigint[], $2::integer[], $3::session_state[]) AS i (id, epoch, state)
  WHERE ${sameSession("s", "i")} AND s.epoch = i.epoch AND s.state = 'attached'`,
);

/**
 * Marks sessions whose stream has ended. Where the worker's side closed it, the grace of their claims begins
 * now; where it went silent, or was ended from here, they keep their leases.
 */
export async function detachSessions(db: Database, items: readonly Detachment[]): Promise<void> {
  const sorted = [...items].sort((a, b) => a.number - b.number);
  await db.query(DETACH, [
    numberArray(sorted.map(({ number }) => number)),
    numberArray(sorted.map(({ epoch }) => epoch)),
    textArray(sorted.map(({ how }) => (how === "closed" ? "detached" : "silent"))),
  ]);
}

const CLOSE = statement(
  "session_close",
  `UPDATE sessions SET state = 'closed', detached_at = now()
  WHERE id = $1 AND epoch = $2 AND state <> 'closed'`,
);

/** Marks a session that has drained. */
export async function closeSession(db: Database, number: number, epoch: number): Promise<void> {
  await db.query(CLOSE, [number, epoch]);
}

const SEEN = statement(
  "session_tools_seen",
  `SELECT t.tool FROM unnest($2::text[]) AS t (tool)
  WHERE EXISTS (
    SELECT FROM sessions s
    WHERE s.project_id = $1 AND t.tool = ANY (s.tools)
      AND s.last_heard_at > now() - $3::bigint * interval '1 millisecond'
  )`,
);

/** Which of these tools some worker served within that time. */
export async function toolsSeen(
  db: Database,
  projectId: number,
  tools: readonly string[],
  withinMs: number,
): Promise<string[]> {
  const rows = await db.query<{ readonly tool: string }>(SEEN, [projectId, textArray(tools), withinMs]);
  return rows.map(({ tool }) => tool);
}
