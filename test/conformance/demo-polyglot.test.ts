import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { STORY } from "../../examples/demo/story.mjs";
import { isAlive, processesIn } from "../examples/demo-processes.js";
import { startExample, type ExampleProgram } from "../examples/example-program.js";
import { EXAMPLES, hasToolchain, needsBuild } from "./support/example-workers.js";

/*
 * The demo with a worker in Python and one in Go side by side, as examples.test.ts has built them. `npm run test:long`.
 */

/** A first build fetches and compiles everything. */
const BUILD_MS = 900_000;
const DEMO_MS = 120_000;
const LANGUAGES = ["python", "go"];

const examples = EXAMPLES.filter(({ folder }) => LANGUAGES.includes(folder));
const can: boolean[] = [];
for (const example of examples) can.push(await hasToolchain(example));

describe.runIf(!can.includes(false))("the demo with workers in Python and Go", { timeout: DEMO_MS }, () => {
  let folder: string;

  beforeAll(async () => {
    for (const example of examples) await needsBuild(example);
  }, BUILD_MS);

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "trunkline-test-demo-"));
    // As root, PostgreSQL runs under another account, which must get in.
    await chmod(folder, 0o755);
    return () => rm(folder, { recursive: true, force: true });
  });

  const startDemo = (): ExampleProgram =>
    startExample("demo/run.mjs", ["--workers", LANGUAGES.join(",")], { TMPDIR: folder });

  async function expectNothingLeft({ stdout }: ExampleProgram): Promise<void> {
    expect(await readdir(folder)).toEqual([]);
    expect(processesIn(stdout).filter(isAlive)).toEqual([]);
  }

  test("keeps every promise; each of the two is killed, followed by another, and defers a call", async () => {
    const demo = startDemo();
    const status = await demo.ended;
    const told = demo.stdout.join("\n");
    expect(status, [told, ...demo.stderr].join("\n")).toBe(0);
    expect(told).toContain(`${STORY.length} of ${STORY.length} promises kept`);

    const languagesIn = (line: RegExp): (string | undefined)[] =>
      [...told.replaceAll(/\s+/g, " ").matchAll(line)].map(([, language]) => language).sort();
    expect(languagesIn(/▸ kill -9 (\w+)-[12] /g)).toEqual(["go", "python"]);
    expect(languagesIn(/(\w+)-\d takes calls/g)).toEqual(["go", "go", "python", "python"]);
    const [byToken] = languagesIn(/(\w+)-\d │ ask_user /g);
    const [byId] = languagesIn(/with its worker \(in (\w+)\)/g);
    expect([byToken, byId].sort()).toEqual(["go", "python"]);
    await expectNothingLeft(demo);
  });

  test.for(["python-1", "go-2"])("interrupted while %s works, it clears everything away", async (name) => {
    const demo = startDemo();
    await demo.line(`${name.padEnd(8)} │ crm.`);
    demo.child.kill("SIGINT");
    expect(await demo.ended).toBe(130);
    await expectNothingLeft(demo);
  });

  test.for(["python-1", "go-2"])("fails when %s dies by itself, and clears the rest away", async (name) => {
    const demo = startDemo();
    const [pid = 0] = processesIn([await demo.line(`${name} takes calls`)]);
    await demo.line("│ crm.");
    process.kill(pid, "SIGKILL");
    expect(await demo.ended).toBe(1);
    expect(demo.stdout.join("\n")).toContain(`${name} ended by itself, with SIGKILL`);
    await expectNothingLeft(demo);
  });
});
