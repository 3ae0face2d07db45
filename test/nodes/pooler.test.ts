import { describe, expect, test } from "vitest";
import { useNodes } from "./support/nodes.js";
import { PGBOUNCER, startPgBouncer } from "./support/pgbouncer.js";

const nodes = useNodes();

const title = PGBOUNCER === undefined ? " (skipped: pgbouncer is not installed)" : "";

describe.runIf(PGBOUNCER)(`behind PgBouncer in transaction mode${title}`, () => {
  test("a node that was not told finds out, says so, and calls cross nodes by polling (B25 c)", async () => {
    await using pooler = await startPgBouncer(PGBOUNCER ?? "", nodes.database.url);
    // One finds out by itself, the other was told: neither prepares a statement, so that none collides.
    const [one, two] = await Promise.all([
      nodes.start({ databaseUrl: pooler.url }),
      nodes.start({ databaseUrl: pooler.url, flags: ["--pooler"] }),
    ]);
    expect(one.log).toMatch(/notifications do not arrive, as behind a pooler in transaction mode/);
    nodes.client(two.url).worker({ tools: { echo: (input) => input }, concurrency: 50 });
    const run = await nodes.client(one.url).runs.create();
    const openedAt = performance.now();
    const inputs = Array.from({ length: 300 }, (_, index) => index);
    expect(await Promise.all(inputs.map((input) => run.call("echo", input)))).toEqual(inputs);
    expect(performance.now() - openedAt).toBeLessThan(10_000);
    const openedAgainAt = performance.now();
    await run.call("echo");
    expect(performance.now() - openedAgainAt).toBeLessThan(5_000);
    expect([...one.faults, ...two.faults]).toEqual([]);
    // Before the pooler that they sit behind.
    await Promise.all([one.stop(), two.stop()]);
  });
});

describe.runIf(PGBOUNCER)(`behind PgBouncer in session mode${title}`, () => {
  test("a node says that it has to be told, and works once it is", async () => {
    await using pooler = await startPgBouncer(PGBOUNCER ?? "", nodes.database.url, "session");
    const databaseUrl = pooler.url;
    await expect(nodes.start({ databaseUrl })).rejects.toThrow(
      /behind a pooler in session mode, give --pooler/,
    );
    const node = await nodes.start({ databaseUrl, flags: ["--pooler"] });
    nodes.client(node.url).worker({ tools: { echo_in_session: (input) => input }, concurrency: 50 });
    const run = await nodes.client(node.url).runs.create();
    const inputs = Array.from({ length: 100 }, (_, index) => index);
    expect(await Promise.all(inputs.map((input) => run.call("echo_in_session", input)))).toEqual(inputs);
    expect(node.faults).toEqual([]);
    // Before the pooler that it sits behind.
    await node.stop();
  });
});
