import type { Call } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { isAlive, raiseFloor } from "./nodes.js";
import { CALL_COLUMNS, toCall, type CallRow } from "./rows.js";
import { sameSession, statement } from "./statement.js";

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
  /** Numbers the hellos of the process; 0: not numbered. */
  readonly helloNumber: number;
  /** The node that took the hello. */
  readonly nodeId: string;
  /** The node's heartbeat interval. */
  readonly intervalMs: number;
  /** Whether this node has an open stream of the session. */
  readonly streamOpenHere: boolean;
  /** It comes with a request, and no stream: no node holds the session, and its claims live by its heartbeats alone. */
  readonly polls?: boolean;
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
  | { readonly type: "in_use" }
  /** It was held up: a later one of the same process was taken before it. */
  | { readonly type: "outrun" };

interface FoundRow {
  readonly n: number;
  readonly id: number;
}

interface LockedRow {
  readonly id: number;
  readonly nonce: string;
  readonly hello_number: number;
  readonly attached: boolean;
  readonly node_id: string;
  readonly node_alive: boolean;
}

interface PlacedRow {
  readonly project_id: number;
  readonly session_id: string;
  readonly namespace: string;
  readonly run_id: string;
  readonly id: number;
  readonly epoch: number;
}

interface MovedRow {
  readonly id: number;
  readonly epoch: number;
}

const FLOOR = statement("session_floor", raiseFloor("$1::bigint"));

const FIND = statement(
  "session_find",
  `SELECT i.n::integer AS n, s.id
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[])
    WITH ORDINALITY AS i (project_id, session_id, namespace, run_id, n)
  CROSS JOIN LATERAL (
    SELECT id FROM sessions
    WHERE project_id = i.project_id AND session_id = i.session_id AND namespace = i.namespace
      AND run_id = i.run_id OFFSET 0
  ) s`,
);

/** In the order in which they are given: that of their numbers, as everywhere. */
const LOCK = statement(
  "session_lock",
  `SELECT s.id, s.nonce, s.hello_number, s.attached, s.node_id,
    EXISTS (SELECT FROM nodes n WHERE n.id = s.node_id AND ${isAlive("$3::bigint")}) AS node_alive
  FROM unnest($1::integer[], $2::bigint[]) AS i (project_id, id)
  CROSS JOIN LATERAL (
    SELECT id, nonce, hello_number, node_id, state = 'attached' AS attached FROM sessions
    WHERE project_id = i.project_id AND id = i.id
    FOR UPDATE
  ) s`,
);

const PLACE = statement(
  "session_place",
  `INSERT INTO sessions (project_id, session_id, namespace, run_id, nonce, node_id, worker, sdk, tools, toolset,
    hello_number, state, epoch, detached_at)
  SELECT i.project_id, i.session_id, i.namespace, i.run_id, i.nonce, i.node_id, i.worker, i.sdk, i.tools::text[],
    i.toolset, i.hello_number, i.state, 1, CASE i.state WHEN 'attached' THEN NULL ELSE now() END
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
      $9::text[], $10::text[], $11::bigint[], $12::session_state[])
    AS i (project_id, session_id, namespace, run_id, nonce, node_id, worker, sdk, tools, toolset, hello_number, state)
  ON CONFLICT DO NOTHING
  RETURNING project_id, session_id, namespace, run_id, id, epoch`,
);

const MOVE = statement(
  "session_move",
  `UPDATE sessions s SET nonce = i.nonce, node_id = i.node_id, worker = i.worker, sdk = i.sdk,
    tools = i.tools::text[], toolset = i.toolset, hello_number = i.hello_number,
    state = i.state, epoch = s.epoch + 1, last_heard_at = now(),
    detached_at = CASE i.state WHEN 'attached' THEN NULL ELSE now() END
  FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
      $9::bigint[], $10::session_state[])
    AS i (project_id, id, nonce, node_id, worker, sdk, tools, toolset, hello_number, state)
  WHERE ${sameSession("s", "i")} AND s.project_id = i.project_id
  RETURNING s.id, s.epoch`,
);

const CLAIMS = statement(
  "session_claims",
  `SELECT ${CALL_COLUMNS}
  FROM unnest($1::integer[], $2::bigint[]) AS i (project_id, session)
  CROSS JOIN LATERAL (
    SELECT * FROM calls WHERE project_id = i.project_id AND session = i.session AND state = 'claimed' OFFSET 0
  ) c`,
);

/**
 * Moves sessions to this node, each with its next epoch; makes those that are new. Many at once, in one
 * transaction, since after an outage all workers come back in the same moment. A session's row is locked
 * throughout, so that no claim is made for the epoch before once its claims have been read. Hellos of one
 * session are taken in their order. To be repeated when nobody knows whether it was done: that counts one
 * more epoch.
 */
export async function helloSessions(db: Database, hellos: readonly Hello[]): Promise<HelloOutcome[]> {
  const first = hellos[0];
  if (first === undefined) return [];
  return db.transaction(async (tx) => {
    await tx.query(FLOOR, [Math.max(...hellos.map(({ intervalMs }) => intervalMs))]);
    const outcomes = new Map<Hello, HelloOutcome>();
    for (let rest = hellos; rest.length > 0;) {
      const round = new Map<string, Hello>();
      for (const hello of rest) if (!round.has(keyOf(hello))) round.set(keyOf(hello), hello);
      const taken = new Set(round.values());
      await takeRound(tx, round, outcomes);
      rest = rest.filter((hello) => !taken.has(hello));
    }
    return hellos.map((hello) => outcomes.get(hello) ?? { type: "in_use" });
  });
}

/** Takes hellos of different sessions. */
async function takeRound(
  tx: Database,
  round: ReadonlyMap<string, Hello>,
  outcomes: Map<Hello, HelloOutcome>,
): Promise<void> {
  // New ones are inserted in the order of their keys: two nodes that insert the same ones do not block each other.
  const sorted = [...round].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, hello]) => hello);
  const locked = await lock(tx, sorted);
  const unknown = sorted.filter((hello) => !locked.has(hello));
  if (unknown.length > 0) {
    for (const { id, epoch, ...placed } of await tx.query<PlacedRow>(PLACE, placeValues(unknown))) {
      const { project_id: projectId, session_id: sessionId, namespace, run_id: runId } = placed;
      const hello = round.get(JSON.stringify([projectId, sessionId, namespace, runId]));
      if (hello !== undefined)
        outcomes.set(hello, { type: "ok", number: id, epoch, takenOver: false, claims: [] });
    }
    // Placed by another node since.
    const late = unknown.filter((hello) => !outcomes.has(hello));
    if (late.length > 0) for (const [hello, row] of await lock(tx, late)) locked.set(hello, row);
  }
  for (const [hello, row] of locked) if (isOutrun(row, hello)) outcomes.set(hello, { type: "outrun" });
  const moving = [...locked].filter(([hello, row]) => !isInUse(row, hello) && !isOutrun(row, hello));
  if (moving.length > 0) await move(tx, moving, outcomes);
}

async function lock(tx: Database, hellos: readonly Hello[]): Promise<Map<Hello, LockedRow>> {
  const found: { readonly id: number; readonly hello: Hello }[] = [];
  for (const { n, id } of await tx.query<FoundRow>(FIND, keyValues(hellos))) {
    const hello = hellos[n - 1];
    if (hello !== undefined) found.push({ id, hello });
  }
  if (found.length === 0) return new Map();
  found.sort((a, b) => a.id - b.id);
  const rows = await tx.query<LockedRow>(LOCK, [
    numberArray(found.map(({ hello }) => hello.scope.projectId)),
    numberArray(found.map(({ id }) => id)),
    Math.max(...hellos.map(({ intervalMs }) => intervalMs)),
  ]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  // One that was deleted since is new.
  return new Map(
    found.flatMap(({ id, hello }) => {
      const row = byId.get(id);
      return row === undefined ? [] : [[hello, row] as const];
    }),
  );
}

async function move(
  tx: Database,
  moving: readonly (readonly [Hello, LockedRow])[],
  outcomes: Map<Hello, HelloOutcome>,
): Promise<void> {
  const hellos = moving.map(([hello]) => hello);
  const projects = numberArray(hellos.map(({ scope }) => scope.projectId));
  const ids = numberArray(moving.map(([, { id }]) => id));
  const moved = await tx.query<MovedRow>(MOVE, [projects, ids, ...factValues(hellos)]);
  const epochs = new Map(moved.map(({ id, epoch }) => [id, epoch]));
  const claims = await liveClaims(tx, projects, ids);
  for (const [hello, { id, nonce }] of moving) {
    outcomes.set(hello, {
      type: "ok",
      number: id,
      epoch: epochs.get(id) ?? 0,
      takenOver: nonce !== hello.nonce,
      claims: claims.get(id) ?? [],
    });
  }
}

/** All live claims of sessions, by the sessions' numbers. Projects and numbers are arrays of one length. */
export async function liveClaims(
  db: Database,
  projects: string,
  numbers: string,
): Promise<ReadonlyMap<number, readonly Call[]>> {
  const claims = new Map<number, Call[]>();
  for (const row of await db.query<CallRow>(CLAIMS, [projects, numbers])) {
    const call = toCall(row);
    if (call.claim === null) continue;
    const { session } = call.claim;
    const others = claims.get(session);
    if (others === undefined) claims.set(session, [call]);
    else others.push(call);
  }
  return claims;
}

function keyOf({ scope, sessionId }: Hello): string {
  return JSON.stringify([scope.projectId, sessionId, scope.namespace ?? "", scope.runId ?? ""]);
}

/**
 * What tells sessions apart: their ids, and what their workers' credentials are bound to. Two workers that reach
 * different things never share one, so neither has a say in what the other holds.
 */
export function keyValues(sessions: readonly Pick<Hello, "scope" | "sessionId">[]): unknown[] {
  return [
    numberArray(sessions.map(({ scope }) => scope.projectId)),
    textArray(sessions.map(({ sessionId }) => sessionId)),
    textArray(sessions.map(({ scope }) => scope.namespace ?? "")),
    textArray(sessions.map(({ scope }) => scope.runId ?? "")),
  ];
}

/** Tools are arrays in an array, which `unnest` would make one of: each is given as its own text. */
function factValues(hellos: readonly Hello[]): unknown[] {
  return [
    textArray(hellos.map(({ nonce }) => nonce)),
    textArray(hellos.map(({ nodeId }) => nodeId)),
    textArray(hellos.map(({ worker }) => worker)),
    textArray(hellos.map(({ sdk }) => sdk)),
    textArray(hellos.map(({ tools }) => textArray(tools))),
    textArray(hellos.map(({ toolset }) => toolset)),
    numberArray(hellos.map(({ helloNumber }) => helloNumber)),
    textArray(hellos.map(({ polls }) => (polls === true ? "silent" : "attached"))),
  ];
}

function placeValues(hellos: readonly Hello[]): unknown[] {
  return [...keyValues(hellos), ...factValues(hellos)];
}

/**
 * Whether a later hello of the same process was taken before. The same one again is taken again: it is sent
 * again when nobody knows whether it was done.
 */
function isOutrun(locked: LockedRow, { nonce, helloNumber }: Hello): boolean {
  return locked.nonce === nonce && helloNumber !== 0 && helloNumber < locked.hello_number;
}

/** Whether another process has a stream open: here this node knows, elsewhere its node must be alive. */
function isInUse(locked: LockedRow, hello: Hello): boolean {
  if (locked.nonce === hello.nonce || !locked.attached) return false;
  return locked.node_id === hello.nodeId ? hello.streamOpenHere : locked.node_alive;
}
