import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { WelcomeSchema, WorkerService, type Hello } from "@trunkline/proto/worker";
import { expect, onTestFinished, test } from "vitest";
import { Endpoint } from "../../client/src/transport.js";
import { Worker } from "../../client/src/worker.js";
import { listen } from "../../server/src/service/listener.js";
import { throughout, until } from "../support/until.js";

const welcome = create(WelcomeSchema, { heartbeatInterval: durationFromMs(50) });

test("a worker that polls says no hello while a stream is tried, and goes on when that comes to nothing", async () => {
  const polls: Hello[] = [];
  const streams: Hello[] = [];
  let pass = false;
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(Health, {
        check: () => ({ status: Status.SERVING }),
        async *watch() {
          yield { status: Status.SERVING };
        },
      });
      router.service(WorkerService, {
        claimCalls: ({ hello }) => {
          if (hello !== undefined) polls.push(hello);
          return { welcome };
        },
        async *work(frames, { signal }) {
          if (!pass) throw new ConnectError("cut", Code.Internal);
          for await (const { hello } of frames) {
            if (hello !== undefined) streams.push(hello);
            yield* [];
          }
          // It is never welcomed.
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      });
    },
  });
  const listener = await listen({ host: "127.0.0.1", port: 0, handler });
  onTestFinished(() => listener.close({ graceMs: 0 }));
  const patience = { welcomeMs: 400, retryMs: 100 };
  const endpoint = new Endpoint({ url: listener.url }, () => undefined, patience);
  const worker = new Worker(endpoint, { tools: { t: () => null }, pollWait: "1ms" }, () => undefined);
  onTestFinished(async () => {
    endpoint.route.close();
    await worker.stop();
  });
  await until("polls", () => polls.length > 2);
  pass = true;
  const tried = await until("the hello of a stream", () => streams[0]);
  await throughout(200, () => {
    expect(streams).toHaveLength(1);
    expect(polls.filter(({ number }) => number > tried.number)).toEqual([]);
  });
  pass = false;
  await until("the next poll", () => polls.some(({ number }) => number > tried.number));
});
