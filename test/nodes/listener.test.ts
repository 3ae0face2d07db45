import { expect, test } from "vitest";
import { openDatabase } from "../../server/src/store/database.js";
import { HintListener, sendHint, type Hint } from "../../server/src/store/notify.js";
import { useDatabase } from "../support/database.js";
import { EventLog } from "../support/event-log.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

const database = useDatabase();

const PROBE_MS = 300;

test("a listening connection that became a black hole is replaced, and what was missed is asked for (B25 a)", async () => {
  const url = new URL(database.url);
  await using proxy = await TcpProxy.start(Number(url.port));
  url.port = String(proxy.port);
  const hints = new EventLog<Hint>();
  let gaps = 0;
  const errors: unknown[] = [];
  const listener = new HintListener({
    url: url.href,
    nodeId: "listening",
    onHint: (hint) => hints.add(hint),
    onGap: () => {
      gaps++;
    },
    onError: (error) => errors.push(error),
    probeMs: PROBE_MS,
  });
  const db = openDatabase({ url: database.url, maxConnections: 1, onError: (error) => errors.push(error) });
  try {
    expect(listener.hears).toBe(false);
    expect(await listener.start()).toBe(true);
    expect(gaps).toBe(1);
    expect(listener.hears).toBe(true);
    const ended = (id: string): Hint => ({ node: "other", queued: [], ended: [id] });
    await sendHint(db, ended("first"));
    await hints.first("a hint", (hint) => hint.ended?.[0] === "first");
    const strandedAt = performance.now();
    proxy.strand();
    // It goes nowhere; the catch-up makes up for it.
    await sendHint(db, ended("missed"));
    await until("the listener is no longer relied on", () => !listener.hears);
    await until("the listener has found out and connected anew", () => gaps === 2);
    // Three probes, a pause of at most a second and a half, and room for a busy machine.
    expect(performance.now() - strandedAt).toBeLessThan(3 * PROBE_MS + 1_500 + 3_000);
    await sendHint(db, ended("after"));
    await hints.first("a hint", (hint) => hint.ended?.[0] === "after");
    expect(hints.all.map((hint) => hint.ended?.[0])).toEqual(["first", "after"]);
    await until("it is relied on again", () => listener.hears);
    expect(String(errors)).toMatch(/no longer delivers/);
    expect(errors).toHaveLength(1);
  } finally {
    await listener.stop();
    expect(listener.hears).toBe(false);
    await db.close();
  }
});

test("a listener goes on through many probes, and through what others put on the channel", async () => {
  let gaps = 0;
  const errors: unknown[] = [];
  const hints = new EventLog<Hint>();
  const listener = new HintListener({
    url: database.url,
    nodeId: "quiet",
    onHint: (hint) => hints.add(hint),
    onGap: () => {
      gaps++;
    },
    onError: (error) => errors.push(error),
    probeMs: 500,
  });
  await listener.start();
  await until("many probes and hints", async () => {
    await database.pool().query("SELECT pg_notify('trunkline', 'not JSON')");
    await database.pool().query(`SELECT pg_notify('trunkline', '{"node":7}')`);
    await database.pool().query(`SELECT pg_notify('trunkline', '{"node":"other"}')`);
    return hints.all.length > 200;
  });
  await listener.stop();
  expect({ gaps, errors }).toEqual({ gaps: 1, errors: [] });
  // Whoever may send may send anything: what is not a hint is passed over, what says little means "read all".
  expect(hints.all.every(({ queued, ended }) => queued === null && ended === null)).toBe(true);
});
