import { parse } from "pgsql-parser";
import { describe, expect, test } from "vitest";
import { STATEMENTS } from "./all-statements.js";

/** Tables whose rows belong to a project. */
const OWNED = new Set([
  ...["runs", "calls", "sessions", "toolsets", "toolset_versions"],
  ...["api_keys", "signing_keys", "revoked_tokens"],
]);

/**
 * Statements of the server itself, which look after the rows of all projects: no caller's value chooses what
 * they touch, but for session numbers, which only nodes know.
 */
const SWEEPS = new Set([
  ...["due_take", "due_next", "runs_due", "leases_lapsed", "leases_of_sessions"],
  ...["session_renew", "session_detach"],
  // Nodes tell all callers apart, so they know what all projects have given out.
  ...["access_secrets", "access_signing_keys", "access_revoked_tokens"],
  ...["retention_old_runs", "retention_delete_calls", "retention_delete_sessions"],
]);

type Tree = Readonly<Record<string, unknown>>;

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null;

/** Each query level of a parse tree, with its kind. */
function* levels(tree: unknown): Generator<{ readonly kind: string; readonly level: Tree }> {
  if (!isTree(tree)) return;
  for (const [key, value] of Object.entries(tree)) {
    if (/^(Select|Insert|Update|Delete)Stmt$/.test(key) && isTree(value)) yield { kind: key, level: value };
    yield* levels(value);
  }
}

/** The tables that a level names itself, not in its subqueries. */
function tablesOf(value: unknown): string[] {
  if (!isTree(value)) return [];
  if ("RangeSubselect" in value) return [];
  if ("RangeVar" in value && isTree(value["RangeVar"])) return [String(value["RangeVar"]["relname"])];
  return Object.values(value).flatMap(tablesOf);
}

const mentionsProject = (value: unknown): boolean => JSON.stringify(value ?? null).includes('"project_id"');

describe("every statement", () => {
  test.each(STATEMENTS.filter(({ name }) => !SWEEPS.has(name)))(
    "$name chooses rows by their project wherever it reads or changes what belongs to one (I7)",
    async ({ text }) => {
      for (const { kind, level } of levels(await parse(text))) {
        const own = kind === "SelectStmt" ? [] : [String((level["relation"] as Tree)["relname"])];
        const tables = [...own, ...tablesOf(level["fromClause"]), ...tablesOf(level["usingClause"])];
        if (!tables.some((table) => OWNED.has(table))) continue;
        const chosen = kind === "InsertStmt" ? level["cols"] : [level["whereClause"], level["fromClause"]];
        expect(mentionsProject(kind === "InsertStmt" ? namesOf(chosen) : chosen)).toBe(true);
      }
    },
  );

  test("is one statement, and each sweep is still there", async () => {
    for (const { name, text } of STATEMENTS) {
      expect(((await parse(text)) as { stmts: unknown[] }).stmts, name).toHaveLength(1);
    }
    const names = new Set(STATEMENTS.map(({ name }) => name));
    expect([...SWEEPS].filter((name) => !names.has(name))).toEqual([]);
    expect(names.size).toBe(STATEMENTS.length);
  });
});

/** Columns of an INSERT, in the shape of references to them. */
function namesOf(columns: unknown): unknown {
  return JSON.parse(JSON.stringify(columns ?? []).replaceAll('"name":', '"sval":')) as unknown;
}
