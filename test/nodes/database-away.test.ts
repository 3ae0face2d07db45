import { expect, test } from "vitest";
import type { ToolContext } from "@trunkline/sdk";
import { gate } from "../client/support/claim.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { lasting, until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

const AWAY_MS = 2_500;

test("opens, answers and deferrals of a node whose database is away for a moment are sent again by the SDK, and none fails", async () => {
  const url = new URL(nodes.database.url);
  await using proxy = await TcpProxy.start(Number(url.port));
  url.port = String(proxy.port);
  const node = await nodes.start({ databaseUrl: url.href });
  const other = await nodes.start();
  const running = new Set<string>();
  const finish = gate();
  const errors: unknown[] = [];
  const worker = nodes.client(node.url).worker({
    onError: (error) => errors.push(error),
    tools: {
      answer: async (input: unknown, { idempotencyKey }: ToolContext) => {
        running.add(idempotencyKey);
        await finish.promise;
        return input;
      },
      defer: async (_: unknown, ctx: ToolContext) => {
        running.add(ctx.idempotencyKey);
        await finish.promise;
        const { token } = await ctx.defer();
        await nodes.client(other.url).tasks.complete(token, "by token");
      },
      quick: () => "quick",
    },
  });
  const harness = nodes.client(node.url);
  // Made elsewhere, so that the node has to ask the database about it.
  const unknown = await nodes.client(other.url).runs.create();
  const run = await harness.runs.create();
  const once = { policy: { mode: "at_most_once" } } as const;
  const held = await Promise.all([run.open("answer", 1), run.open("answer", 2, once), run.open("defer")]);
  await until("the handlers run", () => running.size === 3);

  proxy.refuse();
  proxy.cut("rst");
  finish.open();
  const opened = Promise.all([
    harness.runs.open(unknown.id).call("quick"),
    run.call("quick"),
    run.call("quick", null, once),
  ]);
  await lasting(AWAY_MS);
  proxy.admit();

  expect(await opened).toEqual(["quick", "quick", "quick"]);
  expect(
    (await Promise.all(held.map((call) => call.outcome()))).map(({ result, attempt }) => [result, attempt]),
  ).toEqual([
    [1, 1],
    [2, 1],
    ["by token", 1],
  ]);
  await worker.stop();
  expect(errors).toEqual([]);
  await Promise.all([node.stop(), other.stop()]);
});
