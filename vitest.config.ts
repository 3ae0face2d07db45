import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Where to write the results as JSON as well; `.ci/run` reads its totals from there. Empty: nowhere. */
const report = process.env["TRUNKLINE_TEST_REPORT"] ?? "";

export default defineConfig({
  resolve: {
    // Tests read the sources, so that a stale build cannot pass; test/package looks at what is built.
    alias: [
      { find: /^@trunkline\/proto\/health$/, replacement: source("gen/src/grpc/health/v1/health_pb.ts") },
      {
        find: /^@trunkline\/proto\/reflection$/,
        replacement: source("gen/src/grpc/reflection/v1/reflection_pb.ts"),
      },
      {
        find: /^@trunkline\/proto\/reflection-v1alpha$/,
        replacement: source("gen/src/grpc/reflection/v1alpha/reflection_pb.ts"),
      },
      { find: /^@trunkline\/proto\/(.+)$/, replacement: source("gen/src/trunkline/v1/$1_pb.ts") },
      { find: /^@trunkline\/sdk$/, replacement: source("client/src/index.ts") },
      { find: /^@trunkline\/sdk\/ai$/, replacement: source("client/src/ai/index.ts") },
      { find: /^trunkline\/testing$/, replacement: source("server/src/testing/index.ts") },
      { find: /^trunkline$/, replacement: source("server/src/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    // What takes minutes runs by hand: TRUNKLINE_FULL_SIZE=1 npx vitest run test/full-size/NAME
    // The kit against the SDK, workers with mistakes or in other languages, fault and fuzz runs, a database in trouble,
    // proxies and poolers, the demo, the agent killed, pages in a real browser: npm run test:long
    exclude: [
      ...(process.env["TRUNKLINE_FULL_SIZE"] === "1" ? [] : ["test/full-size/**"]),
      ...(process.env["TRUNKLINE_LONG"] === "1"
        ? []
        : [
            "test/conformance/{broken,demo-polyglot,examples,sdk}.test.ts",
            "test/conformance/foreign-cases{,-tools}.test.ts",
            "test/{fault-run,fuzz}/smoke.test.ts",
            "test/database-trouble/**",
            "test/nodes/{clocks,haproxy,nginx,nginx-tls,pooler}.test.ts",
            "test/examples/{agent-kills,demo}.test.ts",
            "test/browser/**",
          ]),
    ],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    // Tests wait more than they compute: a third worker on two cores saves a quarter of the time.
    maxWorkers: 3,
    // Workers in other languages are built and run in one folder each, by more than one of the long test files.
    fileParallelism: process.env["TRUNKLINE_LONG"] !== "1",
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: report === "" ? ["default"] : ["default", ["json", { outputFile: report }]],
  },
});
