import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { CallService } from "@trunkline/proto/call";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { expect, onTestFinished, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { within } from "../support/until.js";
import { gate } from "./support/claim.js";
import { useBackend } from "./support/server.js";

const backend = useBackend();

test("by requests, who gives up waiting for a call and waits again at once gets its outcome", async () => {
  const client = backend().client({ transport: "poll" });
  onTestFinished(() => client.close());
  const run = await client.runs.create({});
  const call = await run.open("nobody", 1);
  for (let times = 0; times < 3; times++) {
    const leaving = new AbortController();
    const outcome = call.outcome({ signal: leaving.signal });
    // Its request is under way when it is given up.
    await call.status();
    leaving.abort();
    await expect(outcome).rejects.toThrow();
  }
  const outcome = call.outcome();
  await client.calls.settle(call.id, { type: "tool.result", result: 5 });
  expect(await within("the outcome", outcome, 5_000)).toMatchObject({ state: "succeeded", result: 5 });
});

test("by requests, a server that is there and does not serve is sent nothing until it does", async () => {
  let status = Status.NOT_SERVING;
  let opens = 0;
  let looks = 0;
  const lookedAgain = gate();
  const opened = gate();
  const server = createServer(
    connectNodeAdapter({
      routes: (router) => {
        router.service(Health, {
          check: () => {
            if (++looks === 2) lookedAgain.open();
            return { status };
          },
        });
        router.service(CallService, {
          openCalls: () => {
            opens++;
            opened.open();
            return { results: [{ result: { case: "opened", value: { callId: "r/1", key: "k" } } }] };
          },
        });
      },
    }),
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  // What Node documents of a TCP server.
  const { port } = server.address() as AddressInfo;
  const client = new Trunkline({ url: `http://127.0.0.1:${port}`, transport: "poll" });
  onTestFinished(() => client.close());
  const opening = client.runs.open("r").open("nobody", 1);
  await Promise.race([lookedAgain.promise, opened.promise]);
  expect(opens).toBe(0);
  status = Status.SERVING;
  await opened.promise;
  expect((await opening).id).toBe("r/1");
});
