import { expect, test } from "vitest";
import { SCENARIOS } from "../../server/src/conformance/catalog.js";
import {
  runConformance,
  Unstartable,
  type ConformanceOptions,
  type ScenarioResult,
} from "../../server/src/conformance/conformance.js";
import { cleanEnvironment } from "../support/child-process.js";
import { until } from "../support/until.js";

const run = (script: string, options: Partial<ConformanceOptions> = {}): Promise<ScenarioResult[]> =>
  runConformance({
    command: [process.execPath, "-e", script],
    scenarios: SCENARIOS.slice(0, 3),
    jobs: 1,
    environment: cleanEnvironment(),
    ...options,
  });

const IDLE = "setInterval(() => {}, 1000)";

test("a program that ends before its hello fails with its status and its last words", async () => {
  const [first, ...others] = await run("console.error('no such module: frames'); process.exit(3)");
  expect(first?.fault).toMatchObject({
    expected: "the program to keep running",
    came: "it ended with status 3; its last words: no such module: frames",
    lastWords: ["no such module: frames"],
  });
  expect(others.map(({ fault }) => fault?.came)).toEqual(
    Array.from({ length: 2 }, () => "nothing: in scenario 1 the program opened no stream"),
  );
});

test("a program that never connects is given up after its first scenario", async () => {
  const [first, ...others] = await run(IDLE, { helloMs: 300 });
  expect(first?.fault).toMatchObject({
    expected: "a stream with a hello",
    came: "nothing of the kind within 300 ms; no connection came to the address in TRUNKLINE_URL",
  });
  expect(others.every(({ ms, fault }) => ms === 0 && fault !== undefined)).toBe(true);
});

test("a program that is not there is an error of its own, not a worker that fails", async () => {
  await expect(run("", { command: ["/no/such/worker"] })).rejects.toThrow(Unstartable);
});

test("a program that prints without end fails at once, and does not fill the memory", async () => {
  const flood = "const x = 'x'.repeat(2 ** 20); const go = () => process.stdout.write(x, go); go()";
  const before = process.memoryUsage().rss;
  const [first] = await run(flood);
  expect(first?.fault).toMatchObject({ expected: "a program that prints at most 33554432 bytes" });
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
});

test("an interrupted run ends at once, and leaves no process of what the program has started", async () => {
  const stop = new AbortController();
  let pid = 0;
  const lines: string[] = [];
  // SIGTERM is not heard, by the program nor by its child.
  const deaf = `process.on('SIGTERM', () => {}); ${IDLE}`;
  const script = `const child = require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(deaf)}]);
    console.log('child ' + child.pid); ${deaf}`;
  const running = run(script, { signal: stop.signal, onTrace: (_, line) => lines.push(line) });
  await until("the child", () => {
    pid = Number(/\| child (\d+)$/m.exec(lines.join("\n"))?.[1] ?? 0);
    return pid;
  });
  stop.abort();
  const results = await running;
  expect(results.map(({ fault }) => fault?.came)).toEqual([
    "an interruption",
    ...Array.from({ length: 2 }, () => "nothing: the run was interrupted"),
  ]);
  await until("the end of the child", () => !isAlive(pid));
});

/** Whether it runs; a process that nobody has waited for yet is none. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
