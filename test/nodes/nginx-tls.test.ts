import { createClient } from "@connectrpc/connect";
import { RunService } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import type { Changes } from "./support/documented.js";
import { getTheRest, outlasts, plainRequests, reaches, useFronts } from "./support/fronts.js";
import { NGINX, startSecureNginx } from "./support/nginx.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();
const fronts = useFronts();

const title = NGINX === undefined ? " (skipped: nginx is not installed)" : "";
const nginxBefore = async (ports: readonly [number, number?], changes: Changes = {}) =>
  fronts.keep(await startSecureNginx(NGINX ?? "", ports, changes));

/** What nginx waits for by itself, or is documented to, and the heartbeat interval, in the suite's size. */
const IDLE_MS = 1_600;
const HEARTBEAT = "250ms";
const SHORT: Changes = {
  "client_max_body_size 0;":
    "client_max_body_size 0; client_body_timeout 1s; keepalive_timeout 500ms; grpc_send_timeout 1s;",
  "grpc_read_timeout 90s": "grpc_read_timeout 1s",
};

describe.runIf(NGINX)(`behind nginx with TLS${title}`, () => {
  test("what idles outlasts its timeouts, and who closes its side gets the rest (B22 c, S03)", async () => {
    const node = await nodes.start({ heartbeatInterval: HEARTBEAT });
    const nginx = await nginxBefore([node.port], SHORT);
    await Promise.all([
      outlasts(nodes, await fronts.behind(nginx.url, "tls"), IDLE_MS),
      getTheRest(nginx.plainUrl, IDLE_MS),
    ]);
    expect(node.faults).toEqual([]);
  });

  test("its port carries HTTP/1.1 as well: JSON, and workers and harnesses that work by requests (S24)", async () => {
    const node = await nodes.start();
    const { url } = await nginxBefore([node.port]);
    const poll = await fronts.behind(url, "poll", "poll");
    await reaches(poll);
    const spec = { labels: { by: "JSON" } };
    const { run } = await createClient(RunService, plainRequests(url)).createRun({ spec });
    expect(run).toMatchObject(spec);
    expect(node.faults).toEqual([]);
  });

  test("a node that was away serves at once when the other one goes, however lately requests failed on it", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const { url } = await nginxBefore([one.port, two.port]);
    const behind = await fronts.behind(url, "moving");
    await one.stop();
    const call = await behind.run.open("moving");
    for (let looks = 0; looks < 4; looks++) await call.status();
    await one.start();
    await two.stop();
    expect(await reaches(behind)).toBeLessThan(5_000);
    expect([...one.faults, ...two.faults]).toEqual([]);
  });
});
