import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { CallService } from "@trunkline/proto/call";
import { expect, test } from "vitest";
import { getTheRest, outlasts, plainRequests, reaches, useFronts } from "../nodes/support/fronts.js";
import { HAPROXY, HTTP1_ONLY, startHaproxy, TCP } from "../nodes/support/haproxy.js";
import { NGINX, startNginx, startSecureNginx } from "../nodes/support/nginx.js";
import { useNodes } from "../nodes/support/nodes.js";
import { CERTIFICATE } from "../nodes/support/proxy-process.js";
import { figure } from "../support/full-size.js";
import { throughout } from "../support/until.js";

const nodes = useNodes();
const fronts = useFronts();

const IDLE_MS = 180_000;
/** The longest wait of a unary request. */
const WAIT_MS = 60_000;
const TIMEOUT_MS = 300_000;

/** Starts every proxy as it is documented, before one node with the default timings; the addresses, by their names. */
async function everyProxy(port: number) {
  const nginx = fronts.keep(await startNginx(NGINX ?? "", port, { http1: ["proxy_read_timeout 90s"] }));
  const secureNginx = fronts.keep(await startSecureNginx(NGINX ?? "", [port]));
  const http = fronts.keep(await startHaproxy(HAPROXY ?? "", [port]));
  const tcp = fronts.keep(await startHaproxy(HAPROXY ?? "", [port], TCP));
  const http1 = fronts.keep(await startHaproxy(HAPROXY ?? "", [port], HTTP1_ONLY));
  return {
    streams: {
      "nginx-with-its-defaults": nginx.grpcUrl,
      "nginx-tls": secureNginx.url,
      "haproxy-http-tls": http.url,
      "haproxy-tcp-tls": tcp.url,
    },
    halfClosed: {
      "nginx-with-its-defaults": nginx.grpcUrl,
      nginx: secureNginx.plainUrl,
      "haproxy-http": http.plainUrl,
      "haproxy-tcp": tcp.plainUrl,
    },
    requests: { "nginx-http1": nginx.http1Url, "haproxy-http1": http1.url },
    waits: {
      "nginx-grpc": overGrpc(secureNginx.url),
      "nginx-json": plainRequests(secureNginx.url),
      "nginx-http1-json": plainRequests(nginx.http1Url),
      "haproxy-http-grpc": overGrpc(http.url),
      "haproxy-http-json": plainRequests(http.url),
      "haproxy-tcp-grpc": overGrpc(tcp.url),
      "haproxy-tcp-json": plainRequests(tcp.url),
      "haproxy-http1-json": plainRequests(http1.url),
    },
  };
}

const overGrpc = (baseUrl: string): Transport =>
  createGrpcTransport({ baseUrl, nodeOptions: { ca: CERTIFICATE }, idleConnectionTimeoutMs: 1_000 });

const each = <T>(of: Readonly<Record<string, T>>, work: (name: string, value: T) => Promise<void>) =>
  Object.entries(of).map(([name, value]) => work(name, value));

test.skipIf(NGINX === undefined || HAPROXY === undefined)(
  "with the documented settings of every proxy, what is idle for three minutes is there at once, and the longest wait is answered (B22, S03)",
  async () => {
    const node = await nodes.start({ heartbeatInterval: "5s" });
    const { streams, halfClosed, requests, waits } = await everyProxy(node.port);
    const run = await nodes.client(node.url).runs.create();
    const never = await run.open("served-by-nobody");
    await Promise.all([
      ...each(streams, async (name, url) => {
        const tookMs = await outlasts(nodes, await fronts.behind(url, name), IDLE_MS);
        figure(`${name}: after three minutes a call reaches its handler in`, `${tookMs.toFixed(1)} ms`);
      }),
      ...each(requests, async (name, url) => {
        const behind = await fronts.behind(url, name);
        await reaches(behind);
        await throughout(IDLE_MS, () => expect(behind.worker.status).toBe("connected"));
        const tookMs = await reaches(behind);
        expect(tookMs).toBeLessThan(1_000);
        expect(new Set(behind.statuses)).toEqual(new Set(["connected"]));
        figure(`${name}: after three minutes a call reaches its handler in`, `${tookMs.toFixed(1)} ms`);
      }),
      ...each(halfClosed, async (name, url) => {
        await getTheRest(url, IDLE_MS);
        figure(`${name}: who closed its side three minutes ago`, "got the rest");
      }),
      ...each(waits, async (name, transport) => {
        const startedAt = performance.now();
        const calls = [{ callId: never.id }];
        const answer = await createClient(CallService, transport).waitCalls({
          calls,
          timeout: durationFromMs(WAIT_MS),
        });
        expect(answer).toMatchObject({ settled: false });
        figure(
          `${name}: a wait of a minute is answered in`,
          `${Math.round(performance.now() - startedAt)} ms`,
        );
      }),
    ]);
    expect(node.faults).toEqual([]);
  },
  TIMEOUT_MS,
);
