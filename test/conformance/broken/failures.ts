import { fileURLToPath } from "node:url";
import { SCENARIOS } from "../../../server/src/conformance/catalog.js";
import { runConformance, type ScenarioResult } from "../../../server/src/conformance/conformance.js";
import { cleanEnvironment } from "../../support/child-process.js";
import { sized } from "../../support/full-size.js";
import type { Mistake } from "./mistakes.mjs";

const WORKER = fileURLToPath(new URL("worker.mjs", import.meta.url));

/** Which of these scenarios the worker by hand fails, with a mistake, or with none. */
export async function failures(
  mistake: Mistake | "",
  numbers: readonly number[],
  jobs = 1,
): Promise<ScenarioResult[]> {
  const results = await runConformance({
    command: [process.execPath, WORKER],
    scenarios: SCENARIOS.filter(({ number }) => numbers.includes(number)),
    jobs,
    environment: cleanEnvironment({ BROKEN: mistake }),
    patienceMs: sized(2_000, 5_000),
  });
  return results.filter(({ fault }) => fault !== undefined);
}
