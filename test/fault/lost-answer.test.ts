import { describe, expect, test } from "vitest";
import type { CallHandle } from "@trunkline/sdk";
import { startTestPostgres, type TestPostgres } from "../support/postgres.js";
import { ServerProcess } from "../support/server-process.js";
import { attached, clientOf, useStack } from "../support/stack.js";
import { throughout } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";

const stack = useStack();

/** Long, so that only a delivery can end the call. */
const POLICY = { heartbeatTimeout: "30s", detachGrace: "30s" } as const;
const STEPS = [{ wait: "end" }, { return: 42 }];

async function answeredOnce(call: CallHandle, worker: WorkerProcess): Promise<void> {
  expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1, result: 42 });
  expect(await worker.starts(call.id)).toBe(1);
  // The outbox is empty: the worker can leave.
  worker.stop();
  await worker.told("stopped");
  expect(worker.errors).toEqual([]);
}

describe.concurrent("B15: an answer", () => {
  test("that is lost before the server is sent again on the next stream", async () => {
    const tool = "lost_up";
    await using proxy = await stack.proxy();
    await using worker = await stack.worker({ name: tool, url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    await worker.told("waiting", call.id);
    proxy.hold("up");
    worker.go("end");
    await worker.told("end", call.id);
    proxy.cut("rst");
    proxy.release();
    await answeredOnce(call, worker);
  });

  test("whose acknowledgement is lost is sent again, and that is no error", async () => {
    const tool = "lost_down";
    await using proxy = await stack.proxy();
    await using worker = await stack.worker({ name: tool, url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    await worker.told("waiting", call.id);
    proxy.hold("down");
    worker.go("end");
    await stack.inState(call.id, "succeeded");
    proxy.cut("rst");
    proxy.release();
    await answeredOnce(call, worker);
  });

  test("that meets a black hole is delivered when the worker has noticed it", async () => {
    const tool = "black_hole";
    await using proxy = await stack.proxy();
    await using worker = await stack.worker({ name: tool, url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    await worker.told("waiting", call.id);
    proxy.blackHole();
    worker.go("end");
    await worker.told("end", call.id);
    await throughout(1_500, async () => {
      expect(await call.status()).toMatchObject({ state: "claimed", attempt: 1 });
    });
    proxy.cut("rst");
    proxy.release();
    await answeredOnce(call, worker);
  });

  test.each(["fin", "rst"] as const)(
    "that is made while the stream is closed by %s goes to the next one",
    async (how) => {
      const tool = `closed_by_${how}`;
      await using proxy = await stack.proxy();
      await using worker = await stack.worker({ name: tool, url: proxy.url });
      const run = await stack.client.runs.create();
      const call = await run.open(tool, STEPS, { policy: POLICY });
      await worker.told("waiting", call.id);
      proxy.refuse();
      proxy.cut(how);
      worker.go("end");
      await worker.told("end", call.id);
      proxy.admit();
      await answeredOnce(call, worker);
    },
  );

  test("that is made while the server is down for seconds is delivered when it is back", async () => {
    const tool = "server_down";
    await using server = await ServerProcess.start({ databaseUrl: stack.database.url });
    await using worker = new WorkerProcess({ url: server.url, name: tool, tools: [tool] });
    await attached(stack.database, worker);
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    await worker.told("waiting", call.id);
    await server.kill();
    worker.go("end");
    await worker.told("end", call.id);
    await throughout(2_000, () => expect(worker.isAlive).toBe(true));
    await server.start();
    await answeredOnce(call, worker);
  });
});

describe("B15: an answer that is made while PostgreSQL is down", () => {
  test.each(["stop", "kill"] as const)(
    "(%s) is stored when it is back, after one start of the handler",
    async (how) => {
      const tool = "database_down";
      const postgres = await startTestPostgres();
      await using _ = disposal(postgres);
      await using server = await ServerProcess.start({ databaseUrl: postgres.url });
      await using worker = new WorkerProcess({ url: server.url, name: tool, tools: [tool] });
      await using harness = clientOf(server.url);
      const run = await harness.runs.create();
      const call = await run.open(tool, STEPS, { policy: POLICY });
      await worker.told("waiting", call.id);
      await postgres[how]();
      worker.go("end");
      await worker.told("end", call.id);
      await throughout(1_500, () => expect(worker.isAlive).toBe(true));
      await postgres.start();
      await answeredOnce(call, worker);
    },
  );
});

function disposal(postgres: TestPostgres): AsyncDisposable {
  return { [Symbol.asyncDispose]: () => postgres.dispose() };
}
