import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { isAlive, raiseFloor } from "./nodes.js";
import { sameSession, statement } from "./statement.js";

export { hearSessions, type Heard, type SignOfLife } from "./heard.js";
export { helloSessions, type Hello, type HelloOutcome } from "./hello.js";
export { lapsedClaims, sessionClaims } from "./leases.js";
export { aliveNodes, registerNode, removeNode } from "./nodes.js";

/** A session as one epoch knows it; with an older one nothing is done. */
export interface SessionEpoch {
  readonly number: number;
  readonly epoch: number;
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
  ), renewed AS (
    UPDATE sessions s SET
      last_heard_at = greatest(s.last_heard_at, now() - i.heard_ms * interval '1 millisecond')
    FROM unnest($3::bigint[], $4::integer[], $5::bigint[]) AS i (id, epoch, heard_ms)
    WHERE ${sameSession("s", "i")} AND s.epoch = i.epoch AND s.node_id = $1
    RETURNING s.id
  ), others AS (
    SELECT EXISTS (SELECT FROM nodes n WHERE n.id <> $1 AND ${isAlive("$2::bigint")}) AS alive
  )
  SELECT r.id, o.alive AS others_alive, a.version AS access_version
  FROM others o CROSS JOIN access_state a LEFT JOIN renewed r ON true`,
);

/** What a renewal found. */
export interface Renewed {
  /** The numbers of those sessions that are still this node's, in that epoch. */
  readonly kept: readonly number[];
  /** Whether another node was renewed within three intervals. */
  readonly othersAlive: boolean;
  /** The number of the last change to keys and tokens. */
  readonly accessVersion: number;
}

interface RenewedRow {
  readonly id: number | null;
  readonly others_alive: boolean;
  readonly access_version: number;
}

/** Renews a node and its sessions, in one statement, and raises the lease floor where no node was alive. */
export async function renewSessions(
  db: Database,
  nodeId: string,
  intervalMs: number,
  items: readonly Renewal[],
): Promise<Renewed> {
  const sorted = [...items].sort((a, b) => a.number - b.number);
  const rows = await db.query<RenewedRow>(RENEW, [
    nodeId,
    intervalMs,
    numberArray(sorted.map(({ number }) => number)),
    numberArray(sorted.map(({ epoch }) => epoch)),
    numberArray(sorted.map(({ heardMsAgo }) => Math.max(0, Math.round(heardMsAgo)))),
  ]);
  return {
    kept: rows.flatMap(({ id }) => id ?? []),
    othersAlive: rows[0]?.others_alive === true,
    accessVersion: rows[0]?.access_version ?? 0,
  };
}

/**
 * A session whose stream has ended: `closed` by the worker's side without drain, gone `silent`, or `done`, with no
 * claim left.
 */
export interface Detachment extends SessionEpoch {
  readonly how: "closed" | "silent" | "done";
}

const STATE_AFTER = { closed: "detached", silent: "silent", done: "closed" } as const;

const DETACH = statement(
  "session_detach",
  `UPDATE sessions s SET state = i.state, detached_at = now()
  FROM unnest($1::bigint[], $2::integer[], $3::session_state[]) AS i (id, epoch, state)
  WHERE ${sameSession("s", "i")} AND s.epoch = i.epoch
    AND (s.state = 'attached' OR (i.state = 'closed' AND s.state <> 'closed'))`,
);

/**
 * Marks sessions whose stream has ended. Where the worker's side closed it, the grace of their claims begins
 * now; where it went silent, or was ended from here, they keep their leases. Again changes nothing.
 */
export async function detachSessions(db: Database, items: readonly Detachment[]): Promise<void> {
  const sorted = [...items].sort((a, b) => a.number - b.number);
  await db.query(DETACH, [
    numberArray(sorted.map(({ number }) => number)),
    numberArray(sorted.map(({ epoch }) => epoch)),
    textArray(sorted.map(({ how }) => STATE_AFTER[how])),
  ]);
}

const SEEN = statement(
  "session_tools_seen",
  `SELECT t.tool FROM unnest($2::text[]) AS t (tool)
  WHERE EXISTS (
    SELECT FROM sessions s
    WHERE s.project_id = $1 AND s.namespace IN ('', $4) AND s.run_id IN ('', $5) AND t.tool = ANY (s.tools)
      AND s.last_heard_at > now() - $3::bigint * interval '1 millisecond'
  )`,
);

/**
 * Which of these tools some worker served within that time: one of the whole project's, or of the scope's end user or
 * run, where it has one.
 */
export async function toolsSeen(
  db: Database,
  { projectId, namespace, runId = "" }: Scope,
  tools: readonly string[],
  withinMs: number,
): Promise<string[]> {
  const values = [projectId, textArray(tools), withinMs, namespace ?? "", runId];
  const rows = await db.query<{ readonly tool: string }>(SEEN, values);
  return rows.map(({ tool }) => tool);
}
