import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { SCENARIOS } from "../../server/src/conformance/catalog.js";
import { runConformance } from "../../server/src/conformance/conformance.js";
import { cleanEnvironment } from "../support/child-process.js";

const WORKER = fileURLToPath(new URL("../../examples/workers/sdk/worker.mjs", import.meta.url));

test("the SDK's worker passes every scenario", { timeout: 60_000 }, async () => {
  const results = await runConformance({
    command: [process.execPath, WORKER],
    scenarios: SCENARIOS,
    jobs: 8,
    environment: cleanEnvironment(),
  });
  expect(results.filter(({ fault }) => fault !== undefined)).toEqual([]);
  expect(results.map(({ number }) => number)).toEqual(Array.from({ length: 26 }, (_, index) => index + 1));
});
