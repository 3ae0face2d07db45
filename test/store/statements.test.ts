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
    // The two sides of a UNION.
    if (/^[lr]arg$/.test(key) && isTree(value)) yield { kind: "SelectStmt", level: value };
    yield* levels(value);
  }
}

/** The nodes of one kind in a level itself, not in its subqueries. */
function nodesOf(value: unknown, kind: string): Tree[] {
  if (!isTree(value) || "RangeSubselect" in value || "SubLink" in value) return [];
  const own = value[kind];
  return [...(isTree(own) ? [own] : []), ...Object.values(value).flatMap((each) => nodesOf(each, kind))];
}

/** What each table that a level reads or changes is called in it. */
function namesOfTables({
  relation,
  fromClause,
  usingClause,
}: Tree): { readonly table: string; readonly name: string }[] {
  const changed = isTree(relation) ? [relation] : [];
  return [...changed, ...nodesOf([fromClause, usingClause], "RangeVar")].map(({ relname, alias }) => {
    const table = String(relname);
    return { table, name: isTree(alias) ? String(alias["aliasname"]) : table };
  });
}

/** The columns that a level compares with something by `=`, as `name.column`, or `column` alone. */
function comparedIn({ whereClause, fromClause, usingClause }: Tree): Set<string> {
  const compared = nodesOf([whereClause, fromClause, usingClause], "A_Expr")
    .filter(({ name }) => JSON.stringify(name) === '[{"String":{"sval":"="}}]')
    .flatMap(({ lexpr, rexpr }) => [lexpr, rexpr])
    .flatMap((side) => (isTree(side) && isTree(side["ColumnRef"]) ? [side["ColumnRef"]] : []))
    .map(({ fields }) => (fields as Tree[]).map((field) => (field["String"] as Tree)["sval"]).join("."));
  return new Set(compared);
}

/** The owned tables of a statement that it reads or changes without choosing by project. */
async function forgotten(text: string): Promise<string[]> {
  const tree: unknown = await parse(text);
  return [...levels(tree)].flatMap(({ kind, level }) => {
    if (kind === "InsertStmt") {
      const table = String((level["relation"] as Tree)["relname"]);
      const columns = nodesOf(level["cols"], "ResTarget").map(({ name }) => name);
      return OWNED.has(table) && !columns.includes("project_id") ? [table] : [];
    }
    const tables = namesOfTables(level);
    const compared = comparedIn(level);
    return tables
      .filter(({ table }) => OWNED.has(table))
      .filter(({ name }) => !compared.has(`${name}.project_id`))
      .filter(() => tables.length > 1 || !compared.has("project_id"))
      .map(({ table }) => table);
  });
}

/** Statements that forget the project of a table, each in a way of its own. */
const PLANTED = [
  ["calls", "SELECT * FROM calls WHERE run_id = $1 AND seq = $2"],
  ["calls", "SELECT * FROM calls WHERE project_id <> $1"],
  ["signing_keys", "SELECT project_id, secret FROM signing_keys WHERE project_id IS NOT NULL AND id = $1"],
  ["calls", "SELECT FROM runs r JOIN calls c ON c.run_id = r.id WHERE r.project_id = $1"],
  [
    "calls",
    "SELECT FROM runs r WHERE r.project_id = $1 AND EXISTS (SELECT FROM calls c WHERE c.run_id = r.id)",
  ],
  [
    "calls",
    `SELECT c.* FROM unnest($1::integer[], $2::uuid[]) AS i (project_id, run_id)
    CROSS JOIN LATERAL (SELECT * FROM calls WHERE run_id = i.run_id OFFSET 0) c`,
  ],
  [
    "runs",
    "WITH due AS (SELECT id FROM runs WHERE due_at <= now()) SELECT FROM due d WHERE d.project_id = $1",
  ],
  ["api_keys", "UPDATE api_keys SET revoked_at = now() WHERE id = $1 RETURNING project_id"],
  [
    "calls",
    `UPDATE calls c SET state = 'queued' FROM unnest($1::integer[], $2::uuid[]) AS i (project_id, run_id)
    WHERE c.run_id = i.run_id`,
  ],
  ["calls", "SELECT id FROM runs WHERE project_id = $1 UNION ALL SELECT run_id FROM calls WHERE key = $2"],
  ["sessions", "DELETE FROM sessions s USING nodes n WHERE s.node_id = n.id AND n.project_id = $1"],
  ["toolsets", "INSERT INTO toolsets (id, version) SELECT id, 0 FROM runs WHERE project_id = $1"],
] as const;

describe("a statement that forgets its project", () => {
  test.each(PLANTED)("is found: the project of %s in %s", async (table, text) => {
    expect(await forgotten(text)).toEqual([table]);
  });

  test("is found wherever another column stands for the project's in a statement of the store", async () => {
    const owned = new RegExp(`(FROM|JOIN|INTO|UPDATE) (${[...OWNED].join("|")})\\b`);
    const own = STATEMENTS.filter(({ name, text }) => !SWEEPS.has(name) && owned.test(text));
    expect(own.length).toBeGreaterThan(40);
    for (const { name, text } of own) {
      expect(await forgotten(text.replaceAll("project_id", "worker")), name).not.toEqual([]);
    }
  });
});

describe("every statement", () => {
  test.each(STATEMENTS.filter(({ name }) => !SWEEPS.has(name)))(
    "$name chooses rows by their project wherever it reads or changes what belongs to one (I7)",
    async ({ text }) => {
      expect(await forgotten(text)).toEqual([]);
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
