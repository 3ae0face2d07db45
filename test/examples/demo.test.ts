import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readOptions, UsageError } from "../../examples/demo/options.mjs";
import { Promises } from "../../examples/demo/promises.mjs";
import { STORY } from "../../examples/demo/story.mjs";
import { Terminal, wantsColours } from "../../examples/demo/terminal.mjs";
import { CastingError, Troupe } from "../../examples/demo/troupe.mjs";
import { isAlive, processesIn } from "./demo-processes.js";
import { runExample, startExample } from "./example-program.js";

const MINUTE_MS = 60_000;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-test-demo-"));
  // As root, PostgreSQL runs under another account, which must get in.
  await chmod(folder, 0o755);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("the demo", () => {
  test(
    "keeps every promise in under a minute, succeeds, and leaves nothing",
    { timeout: 120_000 },
    async () => {
      const startedAt = performance.now();
      const { ended, stdout, stderr } = startExample("demo/run.mjs", [], { TMPDIR: folder });
      expect(await ended, stdout.join("\n")).toBe(0);
      expect(performance.now() - startedAt).toBeLessThan(MINUTE_MS);
      expect(stdout.join("\n")).toContain(`${STORY.length} of ${STORY.length} promises kept`);
      expect(stderr).toEqual([]);
      // No terminal, no colours.
      expect(stdout.join("\n")).not.toContain("\u001b");
      expect(await readdir(folder)).toEqual([]);
      const pids = processesIn(stdout);
      expect(pids.length).toBeGreaterThanOrEqual(5);
      expect(pids.filter(isAlive)).toEqual([]);
    },
  );

  test.for([
    ["while the server starts", "npx trunkline dev"],
    ["while it plays", "bank.refund"],
  ] as const)("interrupted %s, it clears everything away", { timeout: 60_000 }, async ([, moment]) => {
    const { child, line, ended, stdout } = startExample("demo/run.mjs", [], { TMPDIR: folder });
    await line(moment);
    child.kill("SIGINT");
    // npm hands on what the terminal has sent already.
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(await readdir(folder)).toEqual([]);
    expect(processesIn(stdout).filter(isAlive)).toEqual([]);
  });

  test("fails when a part of it dies by itself, and clears away the rest", { timeout: 60_000 }, async () => {
    const { line, ended, stdout } = startExample("demo/run.mjs", [], { TMPDIR: folder });
    const [server] = processesIn([await line("ready http://")]);
    await line("script");
    process.kill(server ?? 0, "SIGKILL");
    expect(await ended).toBe(1);
    expect(stdout.join("\n")).toContain("server ended by itself, with SIGKILL");
    expect(await readdir(folder)).toEqual([]);
    expect(processesIn(stdout).filter(isAlive)).toEqual([]);
  });
});

describe("the demo's languages", () => {
  const everything = (): boolean => true;

  test("are those of the two workers, which are named after them where they were asked for", () => {
    const troupe = new Troupe("python,go", everything);
    expect(troupe.languages).toEqual(["python", "go"]);
    expect(troupe.nameOf("go", 2)).toBe("go-2");
    expect([troupe.otherThan("python"), troupe.otherThan("go")]).toEqual(["go", "python"]);
    expect(new Troupe("go", everything).languages).toEqual(["go", "go"]);
    const usual = new Troupe(undefined, () => false);
    expect([...usual.languages, usual.nameOf("node", 1)]).toEqual(["node", "node", "worker-1"]);
  });

  test.for([
    ["", 'there is no ""; there are node, python, go'],
    ["Python", 'there is no "Python"'],
    ["python,", 'there is no "" in "python,"'],
    ["python, go", 'there is no " go" in "python, go"'],
    ["toString", 'there is no "toString"'],
    ["python,go,node", '"python,go,node" are too many; allowed are one or two of node, python, go'],
  ] as const)("%j is refused", ([asked, message]) => {
    expect(() => new Troupe(asked, everything)).toThrow(CastingError);
    expect(() => new Troupe(asked, everything)).toThrow(message);
  });

  test("are refused as long as their workers are not built", () => {
    const unbuilt = (): unknown => new Troupe("node,go", (file) => !file.endsWith("demo/worker"));
    expect(unbuilt).toThrow(
      "examples/workers/go/demo/worker is missing; examples/workers/go/README.md says how to build it",
    );
  });

  test.for([
    [["--workers"], "--workers"],
    [["--wrkers", "go"], "--wrkers"],
    // What npm makes of `npm run demo --workers python,go`.
    [["python,go"], 'unexpected "python,go"; options come after --'],
  ] as const)("are not read from %j", ([args, message]) => {
    expect(() => readOptions(args)).toThrow(UsageError);
    expect(() => readOptions(args)).toThrow(message);
  });

  test("may be given one by one", () => {
    expect(readOptions(["--workers", "python", "--workers=go"])).toEqual({
      help: false,
      workers: "python,go",
    });
  });

  test("that are not there end the demo before it begins", async () => {
    const { status, stdout, stderr } = await runExample("demo/run.mjs", ["--workers", "ruby"], {
      TMPDIR: folder,
    });
    expect({ status, stdout }).toEqual({ status: 2, stdout: [] });
    expect(stderr).toEqual(['--workers: there is no "ruby"; there are node, python, go']);
    expect(await readdir(folder)).toEqual([]);
  });
});

describe("the demo's promises", () => {
  const quiet = new Terminal(() => undefined, false);

  test("are all kept only when each fact of each is so", () => {
    const promises = new Promises(quiet);
    promises.check("kept", "seen", { one: true, two: true });
    expect(promises.allKept).toBe(true);
    promises.check("not kept", "seen", { one: true, two: false });
    promises.check("kept", "seen", { one: true });
    expect(promises.allKept).toBe(false);
    expect(promises.checked[1]?.seen).toBe("seen. But not so: two");
  });

  test("are not all kept when there were none", () => {
    expect(new Promises(quiet).allKept).toBe(false);
  });
});

describe("the demo's colours", () => {
  test("are for terminals whose user did not refuse them", () => {
    expect(wantsColours({ isTTY: true }, { TERM: "xterm" })).toBe(true);
    expect(wantsColours({ isTTY: true }, { TERM: "xterm", NO_COLOR: "1" })).toBe(false);
    expect(wantsColours({ isTTY: true }, { TERM: "dumb" })).toBe(false);
    expect(wantsColours({}, { TERM: "xterm" })).toBe(false);
  });

  test("change nothing but colours", () => {
    const [plain, painted] = [false, true].map((colours) => {
      const said: string[] = [];
      const terminal = new Terminal((text) => said.push(text), colours);
      terminal.title("A title");
      terminal.verdict(true, "a promise", "what was seen");
      return said.join("");
    });
    expect(painted).toContain("\u001b[1m");
    expect(painted?.replaceAll(/\u001b\[[0-9;]*m/g, "")).toBe(plain);
  });
});
