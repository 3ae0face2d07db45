import type { Call } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { keyValues, liveClaims } from "./hello.js";
import { sameSession, statement } from "./statement.js";

/** A request that a worker sent without a stream: its session's sign of life, on whatever node. */
export interface SignOfLife {
  /** Its credential's. */
  readonly scope: Scope;
  /** Made by the worker. */
  readonly sessionId: string;
  /** Of the worker's process. */
  readonly nonce: string;
}

/** Whose sign of life it was. */
export type Heard =
  | {
      readonly type: "ok";
      /** All live claims of the session. */
      readonly claims: readonly Call[];
    }
  /** There is no such session. */
  | { readonly type: "unknown" }
  /** Another process has the session now. */
  | { readonly type: "taken_over" };

interface FoundRow {
  readonly n: number;
  readonly project_id: number;
  readonly id: number;
  readonly nonce: string;
}

const FIND = statement(
  "session_find_process",
  `SELECT i.n::integer AS n, s.project_id, s.id, s.nonce
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[])
    WITH ORDINALITY AS i (project_id, session_id, namespace, run_id, n)
  CROSS JOIN LATERAL (
    SELECT project_id, id, nonce FROM sessions
    WHERE project_id = i.project_id AND session_id = i.session_id AND namespace = i.namespace
      AND run_id = i.run_id OFFSET 0
  ) s`,
);

const HEAR = statement(
  "session_hear",
  `UPDATE sessions s SET last_heard_at = now()
  FROM unnest($1::integer[], $2::bigint[], $3::text[]) AS i (project_id, id, nonce)
  WHERE ${sameSession("s", "i")} AND s.project_id = i.project_id AND s.nonce = i.nonce`,
);

/**
 * Notes that sessions were heard of, whichever node they said hello to, and tells what they hold. Many at once;
 * one that is there twice is noted once.
 */
export async function hearSessions(db: Database, signs: readonly SignOfLife[]): Promise<Heard[]> {
  const found = new Map<SignOfLife, FoundRow>();
  const rows = await db.query<FoundRow>(FIND, keyValues(signs));
  const heard = new Map<number, FoundRow>();
  for (const row of rows) {
    const sign = signs[row.n - 1];
    if (sign === undefined) continue;
    found.set(sign, row);
    if (row.nonce === sign.nonce) heard.set(row.id, row);
  }
  const claims = await hear(db, [...heard.values()]);
  return signs.map((sign): Heard => {
    const row = found.get(sign);
    if (row === undefined) return { type: "unknown" };
    if (row.nonce !== sign.nonce) return { type: "taken_over" };
    return { type: "ok", claims: claims.get(row.id) ?? [] };
  });
}

async function hear(db: Database, rows: readonly FoundRow[]): Promise<ReadonlyMap<number, readonly Call[]>> {
  if (rows.length === 0) return new Map();
  // In the order of their numbers, as everywhere.
  const sorted = [...rows].sort((a, b) => a.id - b.id);
  const projects = numberArray(sorted.map((row) => row.project_id));
  const numbers = numberArray(sorted.map(({ id }) => id));
  await db.query(HEAR, [projects, numbers, textArray(sorted.map(({ nonce }) => nonce))]);
  return liveClaims(db, projects, numbers);
}
