// What it costs to ask callers who they are: the same load without keys, with an API key, and with an end user's token.
import { Trunkline } from "@trunkline/sdk";
import { startServer } from "../stage/server.mjs";
import { onStage, startOpener, startWorker } from "../stage/stack.mjs";
import { byTurns } from "../turns.mjs";

const CALLERS = 500;
const CONCURRENCY = 500;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function keys({ postgres, report, options }) {
  await onStage(async (stage) => {
    const open = await startStack(stage, postgres, "no keys");
    const keyed = await startStack(stage, postgres, "API key", (client) =>
      client.keys.create({ name: "bench", scopes: ["worker", "harness"] }).then(({ key }) => key),
    );
    const bound = await startStack(stage, postgres, "end user's token", (client) =>
      client.tokens.create({ namespace: "bench", scopes: ["worker", "harness"] }).then(({ token }) => token),
    );
    const stacks = [open, keyed, bound];
    for (const { opener } of stacks) await opener.ask("callers", { seconds: 2 });
    const seconds = options.quick ? 2 : 5;
    const samples = await byTurns(options.runs, stacks, ({ opener }) => opener.ask("callers", { seconds }));
    for (const [{ variant }, taken] of samples) {
      const rates = taken.map(({ calls, seconds: took }) => calls / took);
      report.add(
        { scenario: "keys", variant, subject: "trunkline", metric: "calls", unit: "calls/s" },
        rates,
      );
    }
  });
}

/** A server with a harness and a worker that show it what `credentialOf` gets from it; without that, nothing. */
async function startStack(stage, postgres, variant, credentialOf) {
  const database = await stage.database(postgres.url);
  const rootKey = credentialOf === undefined ? undefined : "root-key-of-the-bench";
  const { url } = await stage.start(startServer(database.url, { rootKey }));
  let key;
  if (credentialOf !== undefined) {
    const client = new Trunkline({ url, key: rootKey });
    key = await credentialOf(client);
    await client.close();
  }
  await startWorker(stage, { url, key, concurrency: CONCURRENCY });
  return { variant, opener: await startOpener(stage, { url, key, callers: CALLERS }) };
}
