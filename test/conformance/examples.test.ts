import { fileURLToPath } from "node:url";
import { describe, test } from "vitest";
import { EXAMPLES, needsToolchain, succeed } from "./support/example-workers.js";

/*
 * The example workers in other languages: built by the steps of their READMEs, tested by their own tests, and put
 * through the conformance kit. That takes minutes, so it is `npm run test:long`, which verify and CI run.
 */

const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

/** A first build fetches and compiles everything. */
const BUILD_MS = 900_000;
const TEST_MS = 180_000;

describe.each(EXAMPLES)("the example worker in $language", { concurrent: false }, (example) => {
  const { folder, build, tests, worker } = example;

  test("is built by the steps of its README", { timeout: BUILD_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, build);
  });

  test("passes its own tests", { timeout: BUILD_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, tests);
  });

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, [[process.execPath, TRUNKLINE, "conformance", "--", ...worker]]);
  });
});
