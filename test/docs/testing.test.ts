import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fieldsOf } from "./support/interface-fields.js";
import { blocksOf, tablesOf } from "./support/markdown.js";
import { Terminal } from "./support/terminal.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SOURCE = join(ROOT, "server/src/testing/test-server.ts");

const page = await readFile(join(ROOT, "docs/testing.md"), "utf8");
const files = blocksOf(page).flatMap(({ file, code }) => (file === undefined ? [] : [{ file, code }]));

describe("docs/testing.md", () => {
  let terminal: Terminal;

  beforeAll(async () => {
    terminal = await Terminal.open();
    // As in a home folder, later runs find what the first has prepared.
    terminal.env["XDG_CACHE_HOME"] = join(tmpdir(), "trunkline-test-cache");
    for (const { file, code } of files) await terminal.save(file, code);
  });

  afterAll(() => terminal[Symbol.asyncDispose]());

  test("shows tests that pass", async () => {
    expect(files).toHaveLength(3);
    const { status, stdout } = await terminal.run(`node --test ${files.map(({ file }) => file).join(" ")}`);
    expect(stdout).toMatch(/^(#|ℹ) pass 4$/m);
    expect(status).toBe(0);
  });

  test("names everything that a test server has and takes", async () => {
    const [has = new Map<string, string>(), takes = new Map<string, string>()] = tablesOf(page);
    const names = [...has.keys()].flatMap((row) =>
      row.split(", ").map((name) => name.replace(/[.(].*$/, "")),
    );
    const fields = await fieldsOf(SOURCE, "TestServer");
    expect([...new Set(names)]).toEqual(fields.filter((field) => !field.startsWith("[")));
    expect([...takes.keys()]).toEqual(await fieldsOf(SOURCE, "TestServerOptions"));
    expect(await readFile(SOURCE, "utf8")).toContain(
      `DEFAULT_HEARTBEAT = ${takes.get("heartbeatInterval") ?? ""};`,
    );
  });
});
