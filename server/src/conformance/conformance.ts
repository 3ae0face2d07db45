import { Kit } from "./kit.js";
import { Mismatch } from "./mismatch.js";
import type { Scenario } from "./scenario.js";
import { Trace } from "./trace.js";

export { Unstartable } from "./kit.js";

/** What {@link runConformance} is given. */
export interface ConformanceOptions {
  /** The program and its arguments. */
  readonly command: readonly string[];
  readonly scenarios: readonly Scenario[];
  /** How many run at once. */
  readonly jobs: number;
  /** What programs get beside the kit's own variables. Default: this process's. */
  readonly environment?: NodeJS.ProcessEnv;
  /** How long to wait for what has to come at once. Default 5 s. */
  readonly patienceMs?: number;
  /** How long a program may take to its first hello. Default 15 s. */
  readonly helloMs?: number;
  /** Ends the run: what is under way fails, and what is left is not tried. */
  readonly signal?: AbortSignal;
  /** Hears of each result, in the order of the scenarios. */
  readonly onResult?: (result: ScenarioResult) => void;
  /** Hears all that happens, as it happens. */
  readonly onTrace?: (scenario: Scenario, line: string) => void;
}

/** Why a scenario failed. */
export interface Fault {
  /** What had to come. */
  readonly expected: string;
  readonly came: string;
  /** The last of what happened, oldest first: `→` is from the worker. */
  readonly frames: readonly string[];
  /** What the program wrote last on standard error. */
  readonly lastWords: readonly string[];
}

/** How a scenario went. */
export interface ScenarioResult {
  readonly number: number;
  readonly title: string;
  readonly ms: number;
  /** Undefined: it passed. */
  readonly fault: Fault | undefined;
}

const PATIENCE_MS = 5_000;
const HELLO_MS = 15_000;
const LAST_FRAMES = 14;
const CONCURRENCY = 4;

/**
 * Puts a program through scenarios, a few at a time, each with a server and a process of its own.
 *
 * @throws Unstartable when there is no such program
 */
export async function runConformance(options: ConformanceOptions): Promise<ScenarioResult[]> {
  const { scenarios, jobs, onResult } = options;
  const results: (ScenarioResult | undefined)[] = [];
  const spoken = { until: 0 };
  let next = 0;
  let met = false;
  let hopeless: string | undefined;
  const work = async (): Promise<void> => {
    for (let index = next++; index < scenarios.length; index = next++) {
      const scenario = scenarios[index];
      if (scenario === undefined) return;
      const why = options.signal?.aborted === true ? "the run was interrupted" : hopeless;
      const played = why === undefined ? await play(scenario, options) : untried(scenario, why);
      results[index] = played.result;
      met ||= played.met;
      if (!met) hopeless ??= `in scenario ${scenario.number} the program opened no stream`;
      for (let said = results[spoken.until]; said !== undefined; said = results[++spoken.until])
        onResult?.(said);
    }
  };
  const giveUp = (error: unknown): never => {
    next = scenarios.length;
    throw error;
  };
  await Promise.all(Array.from({ length: jobs }, async () => work().catch(giveUp)));
  return results.filter((result) => result !== undefined);
}

interface Played {
  readonly result: ScenarioResult;
  /** Whether the program opened a stream. */
  readonly met: boolean;
}

function untried({ number, title }: Scenario, why: string): Played {
  const fault = { expected: "to be tried", came: `nothing: ${why}`, frames: [], lastWords: [] };
  return { result: { number, title, ms: 0, fault }, met: false };
}

async function play(scenario: Scenario, options: ConformanceOptions): Promise<Played> {
  const { number, title, concurrency = CONCURRENCY } = scenario;
  const trace = new Trace((line) => options.onTrace?.(scenario, line));
  const kit = new Kit({
    command: options.command,
    environment: options.environment ?? process.env,
    worker: `conformance-${number}`,
    concurrency,
    patienceMs: options.patienceMs ?? PATIENCE_MS,
    helloMs: options.helloMs ?? HELLO_MS,
    trace,
  });
  const interrupt = (): void => kit.fail(new Mismatch("the end of the scenario", "an interruption"));
  options.signal?.addEventListener("abort", interrupt);
  let fault: Fault | undefined;
  try {
    await kit.peer.start();
    await scenario.play(kit);
  } catch (error) {
    fault = faultOf(error, kit, trace);
  } finally {
    options.signal?.removeEventListener("abort", interrupt);
    await kit.close();
  }
  return { result: { number, title, ms: Math.round(trace.nowMs), fault }, met: kit.met };
}

function faultOf(error: unknown, kit: Kit, trace: Trace): Fault {
  if (!(error instanceof Mismatch)) throw error;
  const { expected, came } = error;
  return { expected, came, frames: trace.last(LAST_FRAMES), lastWords: [...kit.lastWords] };
}
