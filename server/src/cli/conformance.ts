import { setMaxListeners } from "node:events";
import { open } from "node:fs/promises";
import type { Command } from "commander";
import type { ScenarioResult } from "../conformance/conformance.js";
import type { Scenario } from "../conformance/scenario.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import { writeJson, type Json } from "./json-document.js";
import { refuse, wholeNumber } from "./option-values.js";
import type { Output } from "./output.js";
import { listenForStop } from "./stop-signals.js";

const EXAMPLE = `
docs/conformance.md says what the program has to do, and what each scenario wants.

Example:
  $ trunkline conformance -- python3 worker.py
  $ trunkline conformance --only 9,10 --verbose -- ./worker`;

const MAX_JOBS = 64;
const DEFAULT_JOBS = 4;

interface ConformanceFlags {
  readonly list?: boolean;
  readonly only?: readonly number[];
  readonly verbose?: boolean;
  readonly report?: string;
  readonly jobs?: number;
}

/** Adds `trunkline conformance`: tells whether a worker speaks the protocol right. */
export function addConformance(program: Command): void {
  program
    .command("conformance")
    .description("tell whether a worker, in whatever language, speaks the protocol right")
    .argument("[command...]", "the worker's program and its arguments, after --")
    .option("--list", "show the scenarios, and run none")
    .option("--only <numbers>", "run these scenarios only, such as 3,7", readNumbers)
    .option("--verbose", "show the frames, and what the program prints, one scenario at a time")
    .option("--report <file>", "write the results to a file as well, as a JSON document")
    .option(
      "--jobs <n>",
      `how many scenarios run at once (default: ${DEFAULT_JOBS})`,
      wholeNumber("--jobs", 1, MAX_JOBS),
    )
    .addHelpText("after", EXAMPLE)
    .action(async (words: readonly string[], flags: ConformanceFlags, command: Command) => {
      refuseClientFlags(command);
      const output = outputOf(command);
      if (flags.list === true) await list(output);
      else await conform(words, flags, output);
    });
}

function readNumbers(text: string): readonly number[] {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.every((part) => /^\d+$/.test(part))) return parts.map(Number);
  throw refuse("--only", text, "numbers of scenarios with commas between them, such as 3,7");
}

async function list(output: Output): Promise<void> {
  const { SCENARIOS } = await import("../conformance/catalog.js");
  if (output.json) {
    for (const { number, title } of SCENARIOS) output.document({ number, title });
    return;
  }
  const columns = [{ title: "NO." }, { title: "SCENARIO" }];
  const rows = SCENARIOS.map(({ number, title }) => [String(number), title]);
  output.table(columns, rows);
}

async function conform(words: readonly string[], flags: ConformanceFlags, output: Output): Promise<void> {
  const [file] = words;
  if (file === undefined || file === "") {
    const example = "trunkline conformance -- python3 worker.py";
    throw invalid("COMMAND", `COMMAND: is missing; give the worker's program after --, as in \`${example}\``);
  }
  const scenarios = await chosen(flags.only);
  const report = await openReport(flags.report);
  const stop = new AbortController();
  // Each scenario that runs listens to it.
  setMaxListeners(MAX_JOBS, stop.signal);
  const signals = listenForStop();
  void signals.first.then(() => stop.abort());
  try {
    const results = await run(words, scenarios, flags, output, stop.signal);
    await report?.writeFile(`${writeJson(documentOf(results))}\n`);
    conclude(results, output);
  } finally {
    signals.dispose();
    await report?.close();
  }
}

async function run(
  words: readonly string[],
  scenarios: readonly Scenario[],
  { verbose = false, jobs }: ConformanceFlags,
  output: Output,
  signal: AbortSignal,
): Promise<ScenarioResult[]> {
  const { runConformance, Unstartable } = await import("../conformance/conformance.js");
  try {
    return await runConformance({
      command: words,
      scenarios,
      // Lines of several scenarios at once are nothing to read.
      jobs: jobs ?? (verbose ? 1 : DEFAULT_JOBS),
      signal,
      ...(verbose && { onTrace: ({ number }, line) => output.note(`${String(number).padStart(2)} ${line}`) }),
      ...(!output.json && { onResult: (result) => show(result, output) }),
    });
  } catch (error) {
    if (!(error instanceof Unstartable)) throw error;
    const why = error.code === "ENOENT" ? "there is no such program" : error.message;
    const hint = output.json ? "; --json takes no file, --report does" : "";
    throw invalid("COMMAND", `COMMAND: cannot start ${quoted(words[0] ?? "")} (${why})${hint}`);
  }
}

async function chosen(only: readonly number[] | undefined): Promise<readonly Scenario[]> {
  const { SCENARIOS } = await import("../conformance/catalog.js");
  if (only === undefined) return SCENARIOS;
  const stranger = only.find((number) => !SCENARIOS.some((scenario) => scenario.number === number));
  if (stranger === undefined) return SCENARIOS.filter(({ number }) => only.includes(number));
  const last = SCENARIOS.at(-1)?.number ?? 0;
  throw refuse("--only", String(stranger), `numbers from 1 to ${last}; see --list`);
}

function invalid(field: string, message: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", message, { metadata: { field } });
}

function show({ number, title, ms, fault }: ScenarioResult, output: Output): void {
  const seconds = `${(ms / 1000).toFixed(1)} s`.padStart(7);
  output.verdict(fault === undefined, `${String(number).padStart(2)}  ${title.padEnd(20)} ${seconds}`);
  if (fault === undefined) return;
  output.line(`    expected: ${fault.expected}`);
  output.line(`    came:     ${fault.came}`);
  for (const [heading, lines] of [
    ["what happened last (→ is from the worker):", fault.frames],
    ["what the program wrote last on standard error:", fault.lastWords],
  ] as const) {
    if (lines.length === 0) continue;
    output.line(`    ${heading}`);
    for (const line of lines) output.line(`    ${line}`);
  }
}

function conclude(results: readonly ScenarioResult[], output: Output): void {
  const failed = results.filter(({ fault }) => fault !== undefined).map(({ number }) => number);
  if (failed.length > 0) process.exitCode = 1;
  if (output.json) {
    output.document(documentOf(results));
    return;
  }
  const of = `${results.length - failed.length} of ${results.length} scenarios passed`;
  output.line(failed.length === 0 ? of : `${of}; failed: ${failed.join(", ")}`);
}

function documentOf(results: readonly ScenarioResult[]): Json {
  const passed = results.filter(({ fault }) => fault === undefined).length;
  return {
    passed,
    failed: results.length - passed,
    scenarios: results.map(({ number, title, ms, fault }) => ({
      number,
      title,
      passed: fault === undefined,
      ms,
      ...(fault && {
        expected: fault.expected,
        came: fault.came,
        frames: [...fault.frames],
        lastWords: [...fault.lastWords],
      }),
    })),
  };
}

/** Where the results are written. It is opened before the run, which nobody wants to have waited for in vain. */
async function openReport(file: string | undefined) {
  if (file === undefined) return undefined;
  try {
    return await open(file, "w");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw invalid("--report", `--report: cannot write ${quoted(file)} (${why})`);
  }
}
