import { expect, test } from "vitest";
import { ServerProcess } from "../support/server-process.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

test("a node refuses a schema newer than it knows, and one that runs goes on through an additive migration", async () => {
  const old = await nodes.start();
  const client = nodes.client(old.url);
  client.worker({ tools: { echo: (input) => input } });
  const run = await client.runs.create();
  expect(await run.call("echo", 1)).toBe(1);
  const database = nodes.database.pool();
  // What the next version's first node would do.
  await database.query("ALTER TABLE calls ADD COLUMN of_the_next_version text DEFAULT 'new'");
  await database.query("ALTER TABLE sessions ADD COLUMN of_the_next_version integer");
  await database.query(
    "INSERT INTO schema_migrations (version, name) VALUES (9999, '9999_of_the_next_version')",
  );
  for (let input = 0; input < 20; input++) expect(await run.call("echo", input)).toBe(input);
  const deferred = await run.open("later", null, { policy: { mode: "at_most_once" } });
  await client.calls.settle(deferred.id, { type: "tool.result", result: 2 });
  expect(await deferred.outcome()).toMatchObject({ result: 2 });
  await expect(ServerProcess.start({ databaseUrl: nodes.database.url })).rejects.toThrow(
    /schema is at 9999_of_the_next_version, which is newer than this server knows .*start the version of Trunkline that made it/,
  );
  expect(old.faults).toEqual([]);
});
