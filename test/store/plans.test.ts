import { describe, expect, test } from "vitest";
import type pg from "pg";
import { useDatabase } from "../support/database.js";
import { STATEMENTS } from "./all-statements.js";

const database = useDatabase();

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Plans?: readonly Plan[];
}

const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)];

/** The settings of the server's connections. */
const SETTINGS = ["seqscan", "hashjoin", "mergejoin"].map((name) => `SET enable_${name} = off`).join(";");

/** The plan that a connection prepares for good, knowing nothing of the values. */
async function genericPlan(client: pg.PoolClient, text: string): Promise<Plan[]> {
  const count = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, digits]) => Number(digits)));
  await client.query(`PREPARE planned AS ${text}`);
  try {
    const values = count === 0 ? "" : `(${new Array(count).fill("NULL").join(", ")})`;
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE planned ${values}`,
    );
    return rows.flatMap((row) => flatten(row["QUERY PLAN"][0].Plan));
  } finally {
    await client.query("DEALLOCATE planned");
  }
}

/** By how many of its leading columns an index must be entered, where it is used at all. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  calls_pkey: ["project_id", "run_id"],
  calls_key: ["project_id", "run_id", "key"],
  calls_turn: ["project_id", "run_id", "turn"],
  calls_claimable: ["project_id", "tool"],
  calls_claimable_by_namespace: ["project_id", "namespace =", "tool"],
  calls_held: ["project_id", "session"],
  calls_deferred: ["project_id", "namespace"],
  runs_pkey: ["project_id"],
  runs_key: ["project_id", "key"],
  runs_namespace: ["project_id", "namespace"],
  sessions_id: ["id"],
  toolsets_pkey: ["project_id", "id"],
};

/** Statements that look at many rows of a project by their nature, or at tables of a few rows. */
const FREE = new Set(["calls_list", "calls_list_bare", "leases_lapsed", "retention_delete_sessions"]);

/** Statements that look rows up one by one, by their whole key, or that need the order of one index. */
const LOOK_UPS: Readonly<Record<string, string>> = {
  calls_end: "calls_pkey",
  calls_save: "calls_pkey",
  calls_progress: "calls_pkey",
  calls_load: "calls_pkey",
  calls_load_records: "calls_pkey",
  calls_load_bare_records: "calls_pkey",
  calls_see: "calls_pkey",
  run_watch_small_records: "calls_pkey",
  calls_find: "calls_key",
  calls_find_records: "calls_key",
  due_take: "calls_pkey",
  calls_claim: "calls_claimable",
  calls_claim_of_namespace: "calls_claimable_by_namespace",
  calls_claim_of_run: "calls_pkey",
  call_tokens: "calls_pkey",
  calls_filled: "calls_claimable",
  calls_list_deferred: "calls_deferred",
  calls_list_deferred_bare: "calls_deferred",
};

describe.each([
  "new tables",
  "new tables that were analyzed",
  "a run of 3,000 calls, analyzed when it was empty",
  "tables whose indexes were rebuilt in any order",
])("plans that were made for %s", (when) => {
  test("enter each index by the columns that make a look-up of it, so that they stay good as tables grow", async () => {
    const client = await database.pool().connect();
    try {
      await client.query(`BEGIN; ${SETTINGS}; SET plan_cache_mode = force_generic_plan`);
      if (when.endsWith("any order")) await client.query(REBUILT);
      if (when !== "new tables") await client.query("ANALYZE");
      if (when.startsWith("a run")) await client.query(MANY);
      for (const { name, text } of STATEMENTS) {
        if (!/^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)/.test(text)) continue;
        const plan = await genericPlan(client, text);
        const scans = plan.flatMap((node) => {
          const index = node["Index Name"]?.replace(/_rebuilt$/, "");
          return index === undefined ? [] : [{ ...node, "Index Name": index }];
        });
        for (const { "Index Name": index, "Index Cond": condition = "" } of scans) {
          const columns = FREE.has(name) ? [] : (ENTRIES[index] ?? []);
          const missing = columns.filter((column) => !new RegExp(`\\b${column}(?!\\w)`).test(condition));
          expect(missing, `${name} enters ${index} by ${condition}`).toEqual([]);
        }
        const expected = LOOK_UPS[name];
        if (expected === undefined) continue;
        const used = scans.filter((node) => node["Index Name"].startsWith("calls_"));
        expect(
          used.map((node) => node["Index Name"]),
          name,
        ).toContain(expected);
        if (expected !== "calls_pkey") continue;
        const entries = used.filter((node) => node["Index Name"] === "calls_pkey");
        expect(entries.map((node) => node["Index Cond"]).join("; "), name).toMatch(/\bseq\b/);
      }
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  });
});

/**
 * Each index made anew, those of the primary keys first: of two that cost the same the planner takes the last one
 * made, which REINDEX CONCURRENTLY decides.
 */
const REBUILT = `DO $$
  DECLARE
    rebuilt record;
  BEGIN
    FOR rebuilt IN
      SELECT c.relname AS name, pg_get_indexdef(i.indexrelid) AS definition
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      WHERE c.relnamespace = 'public'::regnamespace
      ORDER BY NOT i.indisprimary
    LOOP
      EXECUTE replace(rebuilt.definition, rebuilt.name || ' ON', rebuilt.name || '_rebuilt ON');
    END LOOP;
  END
$$`;

const MANY = `INSERT INTO calls (project_id, run_id, seq, key, namespace, tool, executor, mode, max_attempts,
    heartbeat_timeout_ms, detach_grace_ms, priority, traceparent, input, version, state, attempt, spent)
  SELECT 1, '01890000-0000-7000-8000-000000000000', n, n::text, 'alice', 'echo', 'worker', 'retry', 5, 60000,
    10000, 0, '', '{}', 1, 'queued', 0, 0
  FROM generate_series(1, 3000) n`;
