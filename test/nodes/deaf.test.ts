import { describe, expect, test } from "vitest";
import type { WorkerStatus } from "@trunkline/sdk";
import type { TcpProxy } from "../support/tcp-proxy.js";
import { throughout, until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

/** The nodes' heartbeat interval; what is noticed within three of them. */
const INTERVAL_MS = 200;

async function behindProxy(tool: string) {
  const node = await nodes.start({ heartbeatInterval: `${INTERVAL_MS}ms` });
  const proxy = await nodes.balancer(node);
  const statuses: WorkerStatus[] = [];
  const worker = nodes.client(proxy.url).worker({
    tools: { [tool]: () => Date.now() },
    onStatus: (status) => statuses.push(status),
  });
  await until("the worker is connected", () => worker.status === "connected");
  const run = await nodes.client(node.url).runs.create();
  return { node, proxy, worker, run, statuses };
}

describe("an idle worker", () => {
  test("keeps its line alive through a proxy that cuts what is silent for five intervals (B22 a)", async () => {
    const { proxy, worker, run } = await behindProxy("idle");
    proxy.cutIdle(5 * INTERVAL_MS);
    await throughout(12 * INTERVAL_MS, () => expect(worker.status).toBe("connected"));
    expect(proxy.connections).toBe(1);
    const openedAt = Date.now();
    expect((await run.call<number>("idle")) - openedAt).toBeLessThan(1_000);
  });

  const cuts: [string, (proxy: TcpProxy) => void][] = [
    ["of all that its connection carries", (proxy) => proxy.strand()],
    ["of what the server says", (proxy) => proxy.hold("down")],
    ["of what it says", (proxy) => proxy.hold("up")],
  ];
  test.each(cuts)("after a silent drop %s serves a call within 5 s (B22 a, b)", async (_, cut) => {
    const { proxy, worker, run, statuses } = await behindProxy("dropped");
    const cutAt = Date.now();
    cut(proxy);
    // Other requests pass: this one is opened at the node itself.
    const call = await run.open("dropped", null, { policy: { mode: "at_most_once" } });
    await until("the worker has noticed", () => worker.status === "deaf" || proxy.connections > 1);
    expect(Date.now() - cutAt).toBeLessThan(20 * INTERVAL_MS);
    proxy.release();
    const { state, result, attempt } = await call.outcome();
    expect(state).toBe("succeeded");
    expect(Number(result) - cutAt).toBeLessThan(5_000);
    // It may have been on its way when the line was dropped, and once more before the worker noticed; nobody saw it.
    expect(attempt).toBeLessThanOrEqual(3);
    expect((await call.status()).spent).toBe(1);
    expect(worker.status).toBe("connected");
    expect(statuses.filter((status) => status === "deaf").length).toBeLessThanOrEqual(1);
  });

  test("that cannot be heard is gone for delivery: another one has the calls at once (B22)", async () => {
    const { node, proxy, worker, run } = await behindProxy("shared");
    proxy.blackHole();
    await until("the worker says that it is deaf", () => worker.status === "deaf");
    nodes.client(node.url).worker({ tools: { shared: () => "the other" } });
    for (let count = 0; count < 5; count++) {
      const openedAt = performance.now();
      expect(await run.call("shared")).toBe("the other");
      expect(performance.now() - openedAt).toBeLessThan(2_000);
    }
  });
});
