import { describe, expect, test } from "vitest";
import type { Run } from "@trunkline/sdk";
import type { ServerProcess } from "../support/server-process.js";
import type { TcpProxy } from "../support/tcp-proxy.js";
import { lasting, until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

/** A third of the case's own times, and less of its handler's. */
const LEASE = "2s";
const HANDLER_MS = 5_000;
const CUT_EVERY_MS = 1_250;

const CUTS: Record<"rst" | "fin" | "hole", (proxy: TcpProxy) => void> = {
  rst: (proxy) => proxy.cut("rst"),
  fin: (proxy) => proxy.cut("fin"),
  hole: (proxy) => proxy.strand(),
};

/** A worker of two slots behind a proxy of its own, and what its handlers saw. */
async function workerBehindProxy(tool: string, first: ServerProcess) {
  const seen = { starts: new Map<string, number>(), running: 0, most: 0, aborted: 0 };
  const proxy = await nodes.balancer(first);
  nodes.client(proxy.url).worker({
    concurrency: 2,
    onError: () => undefined,
    tools: {
      [tool]: async (ms: number, { idempotencyKey, signal }) => {
        seen.starts.set(idempotencyKey, (seen.starts.get(idempotencyKey) ?? 0) + 1);
        seen.most = Math.max(seen.most, ++seen.running);
        signal.addEventListener("abort", () => seen.aborted++);
        await lasting(ms);
        seen.running--;
        return ms;
      },
    },
  });
  return { proxy, seen };
}

async function openCalls(run: Run, tool: string) {
  const open = (ms: number, mode: "retry" | "at_most_once") =>
    run.open(tool, ms, { policy: { mode, heartbeatTimeout: LEASE, detachGrace: LEASE } });
  const long = await Promise.all([open(HANDLER_MS, "retry"), open(HANDLER_MS, "at_most_once")]);
  return { long, waiting: await open(100, "retry") };
}

/** Runs two long calls and one that waits for a slot, while the connection is cut again and again. */
async function runThroughCuts(
  kind: keyof typeof CUTS,
  targets: readonly [ServerProcess, ServerProcess],
  run: Run,
): Promise<void> {
  const { proxy, seen } = await workerBehindProxy(kind, targets[0]);
  const { long, waiting } = await openCalls(run, kind);
  await until("both slots are taken", () => seen.running === 2);
  // One that would take them at once if they were given away.
  const given: string[] = [];
  const idle = nodes.client(targets[1].url).worker({
    concurrency: 1,
    tools: { [kind]: (_: unknown, { idempotencyKey }) => given.push(idempotencyKey) },
  });
  let cuts = 0;
  const cutting = setInterval(() => {
    cuts++;
    proxy.aim(targets[cuts % 2 === 0 ? 0 : 1].port);
    CUTS[kind](proxy);
  }, CUT_EVERY_MS);
  try {
    for (const call of long) expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
    // Offered in the moment of a cut it is offered again; it starts once all the same.
    expect(await waiting.outcome()).toMatchObject({ state: "succeeded" });
    expect(await waiting.status()).toMatchObject({ spent: 1 });
  } finally {
    clearInterval(cutting);
  }
  expect(cuts).toBeGreaterThanOrEqual(3);
  await idle.stop();
  expect([...seen.starts.keys(), ...given].sort()).toEqual([...long, waiting].map(({ id }) => id).sort());
  expect([...seen.starts.values()].every((starts) => starts === 1)).toBe(true);
  expect(seen).toMatchObject({ most: 2, aborted: 0 });
}

describe("a worker whose connection is cut again and again by RST, FIN or a black hole", () => {
  test.each(["the same node", "the other node"])(
    "runs its calls once, keeps its claims, and takes no more than its slots; it goes on to %s (B12)",
    async (where) => {
      const heartbeatInterval = "100ms";
      const [one, two] = await Promise.all([
        nodes.start({ heartbeatInterval }),
        nodes.start({ heartbeatInterval }),
      ]);
      const run = await nodes.client(two.url).runs.create();
      const targets = where === "the same node" ? ([one, one] as const) : ([one, two] as const);
      const kinds = ["rst", "fin", "hole"] as const;
      await Promise.all(kinds.map((kind) => runThroughCuts(kind, targets, run)));
    },
  );
});
