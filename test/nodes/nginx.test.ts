import { describe, expect, test } from "vitest";
import { Trunkline, type WorkerStatus } from "@trunkline/sdk";
import { postJson } from "../support/connect-json.js";
import { figure, sized, spread } from "../support/full-size.js";
import type { ServerProcess } from "../support/server-process.js";
import { lasting, throughout, until } from "../support/until.js";
import { hellos, reaches } from "./support/fronts.js";
import { NGINX, startNginx, type Nginx, type NginxSettings } from "./support/nginx.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

const title = NGINX === undefined ? " (skipped: nginx is not installed)" : "";
const nginxBefore = (node: ServerProcess, settings: NginxSettings = {}): Promise<Nginx> =>
  startNginx(NGINX ?? "", node.port, settings);

/** nginx waits a minute where nothing is set, twelve heartbeat intervals; in the suite, four shorter ones. */
const WAIT_MS = sized(1_000, 60_000);
const HEARTBEAT = sized("250ms", "5s");
const WAITS = ["client_body_timeout", "grpc_read_timeout", "grpc_send_timeout"].map(
  (name) => `${name} ${WAIT_MS}ms`,
);
const IDLE_MS = sized(2, 3) * WAIT_MS;
/** What is shorter than a heartbeat interval cuts. */
const CUTS = ["client_body_timeout 300ms", "grpc_read_timeout 300ms"];

/** A worker and a harness behind nginx, and a run at the node itself. */
async function behind(node: ServerProcess, nginx: Nginx, tool: string) {
  const statuses: WorkerStatus[] = [];
  const worker = nodes.client(nginx.grpcUrl).worker({
    name: tool,
    tools: { [tool]: (input: unknown) => ({ input, at: performance.now() }) },
    onError: () => undefined,
    onStatus: (status) => statuses.push(status),
  });
  await until("the worker is connected", () => worker.status === "connected");
  const run = await nodes.client(nginx.grpcUrl).runs.create();
  const outside = nodes.client(node.url).runs.open(run.id);
  return { worker, statuses, run, outside };
}

describe.runIf(NGINX)(`behind nginx${title}`, () => {
  test(
    "an idle worker and an idle harness outlast its read timeout on one stream, and a call reaches its handler at once (B22 c)",
    { timeout: 2 * IDLE_MS + 30_000 },
    async () => {
      const node = await nodes.start({ heartbeatInterval: HEARTBEAT });
      await using nginx = await nginxBefore(node, { grpc: sized(WAITS, []) });
      const { worker, run, statuses } = await behind(node, nginx, "idle");
      expect(await reaches({ worker, run })).toBeLessThan(1_000);
      await throughout(IDLE_MS, () => expect(worker.status).toBe("connected"));
      const tookMs = await reaches({ worker, run });
      figure("a call after so long reaches its handler", spread([tookMs], "ms"));
      expect(tookMs).toBeLessThan(1_000);
      expect(await hellos(nodes, worker.name)).toBe(1);
      expect(statuses).toEqual(["connected"]);
      expect(node.faults).toEqual([]);
    },
  );

  test.each(CUTS)(
    "a worker whose stream is cut by %s at every pause comes back each time, and its calls are answered (B22 c)",
    async (cut) => {
      const node = await nodes.start({ heartbeatInterval: sized("900ms", "5s") });
      await using nginx = await nginxBefore(node, { grpc: [cut] });
      const tool = cut.split(" ", 1)[0] ?? "";
      const { outside } = await behind(node, nginx, tool);
      for (const streams of [2, 3]) {
        await until("another stream", async () => (await hellos(nodes, tool)) >= streams);
        const call = await outside.open(tool, streams, { policy: { mode: "at_most_once" } });
        expect(await call.outcome()).toMatchObject({ state: "succeeded", result: { input: streams } });
        expect(await call.status()).toMatchObject({ spent: 1 });
      }
      expect(node.faults).toEqual([]);
    },
  );

  test("a stream carries more than a mebibyte where it was told so; where not, what was cut arrives on the next", async () => {
    const node = await nodes.start();
    const input = "x".repeat(200_000);
    const upload = async (tool: string, settings: NginxSettings) => {
      await using nginx = await nginxBefore(node, settings);
      const { outside, worker } = await behind(node, nginx, tool);
      for (let calls = 0; calls < 8; calls++) {
        expect(await outside.call(tool, input)).toMatchObject({ input });
      }
      await worker.stop();
      return await hellos(nodes, tool);
    };
    expect(await upload("unbounded", { grpc: ["client_max_body_size 0"] })).toBe(1);
    expect(await upload("bounded", {})).toBeGreaterThan(1);
    expect(node.faults).toEqual([]);
  });

  test("requests go on when it closes the connection that they share after every five of them", async () => {
    const node = await nodes.start();
    await using nginx = await nginxBefore(node, { http: ["keepalive_requests 5"] });
    const { run } = await behind(node, nginx, "shared");
    const client = nodes.client(nginx.grpcUrl);
    const call = await run.open("shared", 1);
    await call.outcome();
    const looks = Array.from({ length: 10 }, async () => {
      for (let look = 0; look < 5; look++) {
        expect(await client.calls.get(call.id)).toMatchObject({ state: "succeeded" });
      }
    });
    await Promise.all(looks);
    expect(node.faults).toEqual([]);
  });

  test("plain proxying over HTTP/1.1 carries calls that are opened, waited for and settled (B22 d, S24)", async () => {
    const node = await nodes.start();
    await using nginx = await nginxBefore(node);
    const post = async (rpc: string, body: object) => {
      const answer = await postJson(nginx.http1Url, rpc, body);
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      return answer.body;
    };
    const { run } = await post("RunService/CreateRun", { spec: {} });
    const calls = [{ tool: "nobody", inputJson: "1" }];
    const { results } = await post("CallService/OpenCalls", { runId: run.id, calls });
    const call = { callId: results[0].opened.callId };
    const waiting = post("CallService/WaitCalls", { calls: [call], timeout: "20s" });
    await lasting(1_000);
    await post("CallService/SettleCalls", { items: [{ call, settlement: { resultJson: "2" } }] });
    expect(await waiting).toMatchObject({ settled: true, outcomes: [{ ...call, resultJson: "2" }] });
  });

  test("over plain proxying workers and harnesses of the SDK work by requests, and outlast its read timeout (B22 d, S04, S24)", async () => {
    const node = await nodes.start({ heartbeatInterval: HEARTBEAT });
    const wait = sized("500ms", "30s");
    await using nginx = await nginxBefore(node, { http1: sized([`proxy_read_timeout ${WAIT_MS}ms`], []) });
    const warnings: string[] = [];
    const client = new Trunkline({ url: nginx.http1Url, onWarning: (message) => warnings.push(message) });
    const worker = client.worker({ tools: { double: (input) => Number(input) * 2 }, pollWait: wait });
    await until("the worker is connected", () => worker.status === "connected");
    const run = await client.runs.create();
    expect(await run.call("double", 1)).toBe(2);
    await throughout(IDLE_MS, () => expect(worker.status).toBe("connected"));
    const once = { policy: { mode: "at_most_once" } } as const;
    expect(await Promise.all([2, 3, 4].map((input) => run.call("double", input, once)))).toEqual([4, 6, 8]);
    expect(warnings).toEqual([expect.stringContaining("no stream passes to")]);
    await client.close();
    expect(node.faults).toEqual([]);
  });

  test("a stream over plain proxying is refused at once with a word about HTTP/2, and so is a client of the SDK that wants nothing else (S04)", async () => {
    const node = await nodes.start();
    await using nginx = await nginxBefore(node);
    const answer = await postJson(nginx.http1Url, "WorkerService/Work", {});
    expect(answer).toMatchObject({ status: 505, body: expect.stringContaining("it needs HTTP/2") });
    const client = new Trunkline({ url: nginx.http1Url, retryFor: "100ms", transport: "stream" });
    await expect(client.runs.create()).rejects.toThrow(/does every proxy before it speak HTTP\/2/);
    await client.close();
  });
});
