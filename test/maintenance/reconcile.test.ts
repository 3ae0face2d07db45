import { expect, test } from "vitest";
import type { Delivery, WorkSink } from "../../server/src/exchange/delivery.js";
import { reconcile } from "../../server/src/maintenance/reconcile.js";
import { gate } from "../client/support/claim.js";
import { lasting, until } from "../support/until.js";
import { newName, newRun, open, SCOPE, useExchanges } from "../exchange/support/exchanges.js";

const nodes = useExchanges();
const INTERVAL_MS = 10;

test("what a poll brought while the claims were being compared is not taken back when the poll has ended", async () => {
  const asked = gate();
  const go = gate();
  const { exchange } = await nodes.start({
    heartbeatIntervalMs: INTERVAL_MS,
    onStatement: async (name) => {
      if (name !== "leases_of_sessions") return;
      asked.open();
      await go.promise;
    },
  });
  const offers: Delivery[] = [];
  const poll: WorkSink = {
    polls: true,
    offer: (delivery) => void offers.push(delivery),
    confirm: () => undefined,
    revoke: () => undefined,
    drained: () => undefined,
    end: () => undefined,
  };
  const tool = newName("tool");
  const { session, start } = await exchange.sessions.hello(
    {
      scope: SCOPE,
      slots: 1,
      claims: [],
      facts: {
        sessionId: newName("session"),
        nonce: newName("nonce-of-a-process"),
        worker: "w",
        sdk: "test",
        tools: [tool],
        toolset: null,
        helloNumber: 1,
      },
    },
    poll,
  );
  start();
  const comparing = reconcile(exchange);
  await asked.promise;
  const call = await open(exchange, await newRun(exchange), { tool });
  await until("the claim", () => offers[0]);
  exchange.sessions.pollEnded(session, poll);
  // Younger claims are left alone.
  await lasting(2 * INTERVAL_MS);
  go.open();
  await comparing;
  expect(await nodes.call(call)).toMatchObject({ state: "claimed", spent: 1 });
});
