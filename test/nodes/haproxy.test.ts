import { createClient } from "@connectrpc/connect";
import { RunService } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import type { Outcome } from "@trunkline/sdk";
import { sized } from "../support/full-size.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";
import { expectEachRanOnce, startCountedWorkers } from "./support/counted-workers.js";
import type { Changes } from "./support/documented.js";
import { getTheRest, outlasts, plainRequests, reaches, useFronts } from "./support/fronts.js";
import { HAPROXY, HTTP1_ONLY, NO_HTTP2_BEHIND, startHaproxy, TCP } from "./support/haproxy.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();
const fronts = useFronts();

const title = HAPROXY === undefined ? " (skipped: haproxy is not installed)" : "";
const haproxyBefore = async (ports: readonly [number, number?], changes: Changes = {}) =>
  fronts.keep(await startHaproxy(HAPROXY ?? "", ports, changes));

/** What is documented, and the heartbeat interval, in the suite's size. */
const IDLE_MS = 1_600;
const HEARTBEAT = "250ms";
const SHORT: Changes = {
  "timeout client 90s": "timeout client 1s",
  "timeout server 90s": "timeout server 1s",
  "timeout http-request 10s": "timeout http-request 500ms",
  "timeout http-keep-alive 60s": "timeout http-keep-alive 500ms",
};

const MODES: readonly (readonly [string, Changes])[] = [
  ["http", {}],
  ["tcp", TCP],
];

describe.runIf(HAPROXY)(`behind HAProxy${title}`, () => {
  test("over TLS, what idles outlasts its timeouts, by requests and by connections; who closes its side gets the rest (B22 c, S03)", async () => {
    const node = await nodes.start({ heartbeatInterval: HEARTBEAT });
    await Promise.all(
      MODES.map(async ([mode, changes]) => {
        const haproxy = await haproxyBefore([node.port], { ...SHORT, ...changes });
        await Promise.all([
          outlasts(nodes, await fronts.behind(haproxy.url, mode), IDLE_MS),
          getTheRest(haproxy.plainUrl, IDLE_MS),
        ]);
      }),
    );
    expect(node.faults).toEqual([]);
  });

  test("its health check takes out a node that has no database, and lets it in again", async () => {
    const address = new URL(nodes.database.url);
    await using database = await TcpProxy.start(Number(address.port));
    address.port = String(database.port);
    const node = await nodes.start({ databaseUrl: address.href });
    const often = { "inter 1s": "inter 100ms" };
    const fleet = await Promise.all(
      MODES.map(([, changes]) => haproxyBefore([node.port], { ...often, ...changes })),
    );
    const everyLog = (words: RegExp) => (): boolean => fleet.every(({ log }) => words.test(log));
    database.refuse();
    database.cut("rst");
    await until("it is out", everyLog(/nodes\/one is DOWN, .*content check did not match/));
    database.admit();
    await until("it is back", everyLog(/nodes\/one is UP/));
  });

  test.each(MODES.slice(0, sized(1, MODES.length)))(
    "in mode %s a node that drains loses no call and no answer, and spends no attempt (B13 c)",
    async (_mode, changes) => {
      const options = { heartbeatInterval: "1s" };
      const [one, two] = await Promise.all([nodes.start(options), nodes.start(options)]);
      const haproxy = await haproxyBefore([one.port, two.port], changes);
      const workers = startCountedWorkers(nodes, haproxy.plainUrl, 8);
      const run = await nodes.client(haproxy.plainUrl).runs.create();
      const outcomes: Outcome[] = [];
      let goOn = true;
      const drive = async (index: number): Promise<void> => {
        while (goOn) {
          const mode = index % 2 === 0 ? "retry" : "at_most_once";
          const call = await run.open("work", 50 + ((index * 7) % 100), { policy: { mode } });
          outcomes.push(await call.outcome());
        }
      };
      const driving = Promise.all(Array.from({ length: 30 }, (_, index) => drive(index)));
      await until("the calls flow", () => outcomes.length > 50);
      expect((await one.stop())?.status).toBe(0);
      await until("HAProxy has noticed", () => haproxy.log.includes("nodes/one is DOWN"));
      const before = outcomes.length;
      await until("the calls flow without it", () => outcomes.length > before + 50);
      goOn = false;
      await driving;
      await workers.stop();
      await expectEachRanOnce(nodes, workers, outcomes);
      expect([...one.faults, ...two.faults]).toEqual([]);
    },
  );

  test("where it speaks HTTP/1.1 alone, to its clients or to the nodes, the SDK works by requests, and JSON gets through (B22 d, S04, S24)", async () => {
    const node = await nodes.start();
    const kinds = { front: HTTP1_ONLY, back: NO_HTTP2_BEHIND };
    await Promise.all(
      Object.entries(kinds).map(async ([kind, changes]) => {
        const { url } = await haproxyBefore([node.port], changes);
        const auto = await fronts.behind(url, `auto-${kind}`);
        const poll = await fronts.behind(url, `poll-${kind}`, "poll");
        await Promise.all([reaches(auto), reaches(poll)]);
        expect(auto.warnings[0]).toContain(`no stream passes to ${url}`);
        expect(poll.warnings).toEqual([]);
        const spec = { labels: { kind } };
        const { run } = await createClient(RunService, plainRequests(url)).createRun({ spec });
        expect(run).toMatchObject(spec);
      }),
    );
    expect(node.faults).toEqual([]);
  });
});
