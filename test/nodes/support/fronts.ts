import { randomUUID } from "node:crypto";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, expect } from "vitest";
import { Trunkline, type Run, type TransportMode, type Worker, type WorkerStatus } from "@trunkline/sdk";
import { DriveClient, newHello, WorkClient } from "../../service/raw-stream.js";
import { throughout, until } from "../../support/until.js";
import type { Nodes } from "./nodes.js";
import { CERTIFICATE } from "./proxy-process.js";

/** A worker and a harness that know nothing but a proxy's address. */
export interface Behind {
  readonly worker: Worker;
  /** Each status that the worker had. */
  readonly statuses: readonly WorkerStatus[];
  /** A run of the harness. */
  readonly run: Run;
  /** What its client warned of. */
  readonly warnings: readonly string[];
}

/** What tests do on the far side of proxies. */
export interface Fronts {
  /** Ends a proxy after the test: after the clients, which say goodbye through it, and before the nodes. */
  keep<P extends AsyncDisposable>(proxy: P): P;
  /** Starts a worker of one tool, which tells when it was called, and a harness; resolves when they are connected. */
  behind(url: string, tool: string, transport?: TransportMode): Promise<Behind>;
}

/** Gives the test file clients which trust the proxies' certificate. Call it after `useNodes`. */
export function useFronts(): Fronts {
  const clients: Trunkline[] = [];
  const proxies: AsyncDisposable[] = [];
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await Promise.all(proxies.splice(0).map((proxy) => proxy[Symbol.asyncDispose]()));
  });
  return {
    keep: (proxy) => {
      proxies.push(proxy);
      return proxy;
    },
    behind: async (url, tool, transport = "auto") => {
      const warnings: string[] = [];
      const newClient = (): Trunkline => {
        const onWarning = (message: string) => warnings.push(message);
        const client = new Trunkline({ url, transport, tls: { ca: CERTIFICATE }, onWarning });
        clients.push(client);
        return client;
      };
      const statuses: WorkerStatus[] = [];
      const worker = newClient().worker({
        name: tool,
        tools: { [tool]: (input: unknown) => ({ input, at: performance.now() }) },
        onError: () => undefined,
        onStatus: (status) => statuses.push(status),
      });
      await until(`the worker of ${tool} is connected`, () => worker.status === "connected");
      const run = await newClient().runs.create();
      return { worker, statuses, run, warnings };
    },
  };
}

/** Requests as `curl` makes them: JSON over HTTP/1.1, one connection each. */
export function plainRequests(url: string): Transport {
  return createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    useBinaryFormat: false,
    nodeOptions: { ca: CERTIFICATE, agent: false },
  });
}

/** How often a worker said hello. */
export async function hellos({ database }: Nodes, worker: string): Promise<number> {
  const { rows } = await database
    .pool()
    .query<{ epoch: number }>("SELECT epoch FROM sessions WHERE worker = $1", [worker]);
  return rows[0]?.epoch ?? 0;
}

/** Opens a call; how long it took to its handler, in milliseconds. */
export async function reaches({ run, worker }: Pick<Behind, "run" | "worker">): Promise<number> {
  const openedAt = performance.now();
  const { at } = await run.call<{ at: number }>(worker.name);
  return at - openedAt;
}

/**
 * Expects that a worker and a harness which have nothing to say for so long stay on their first streams, and that
 * calls and requests go through at once then. Gives how long a call took to its handler, in milliseconds.
 */
export async function outlasts(nodes: Nodes, behind: Behind, idleMs: number): Promise<number> {
  const { worker, statuses, run, warnings } = behind;
  expect(await reaches(behind)).toBeLessThan(1_000);
  await throughout(idleMs, () => expect(worker.status).toBe("connected"));
  const tookMs = await reaches(behind);
  expect(tookMs).toBeLessThan(1_000);
  // A request, on a connection that has been idle as long.
  expect(await (await run.open(worker.name)).status()).toMatchObject({ tool: worker.name });
  expect(await hellos(nodes, worker.name)).toBe(1);
  expect({ statuses, warnings }).toEqual({ statuses: ["connected"], warnings: [] });
  return tookMs;
}

/**
 * Expects that a harness and a worker which close their side of the stream get the rest: the outcome of a call that
 * is answered only after so long, and the acknowledgment of an answer.
 */
export async function getTheRest(url: string, idleMs: number): Promise<void> {
  const harness = new DriveClient(url);
  const tool = randomUUID();
  const runId = await harness.newRun();
  const request = harness.number();
  harness.send({ opens: [{ request, runId, call: { tool } }] });
  const { callId } = await harness.openedAs(request);
  harness.halfClose();
  await throughout(idleMs, () => expect(harness.ended).toBeUndefined());
  const worker = await WorkClient.open(url, newHello({ tools: [tool] }));
  const claim = await worker.claimOf(callId);
  worker.accept(claim);
  worker.answer(claim, "1");
  worker.halfClose();
  expect([await worker.end(), await harness.end()]).toEqual(["ok", "ok"]);
  expect(worker.acks).toMatchObject([{ claimId: claim.claimId }]);
  expect(harness.outcomes).toMatchObject([{ callId, resultJson: "1" }]);
}
