import { expect, test } from "vitest";
import type { CallHandle, Run, Trunkline } from "@trunkline/sdk";
import { gate } from "../client/support/claim.js";
import { CountedServer, type Census } from "../support/census.js";
import { figure, sized } from "../support/full-size.js";
import { attached } from "../support/stack.js";
import { lasting, until } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

/** Calls of each kind. */
const HELD = sized(100, 2_000);
/** What a worker has not accepted within three intervals is taken back: long enough for a machine that is busy. */
const HEARTBEAT = sized("500ms", "100ms");
/** At full size as many heartbeat intervals as the default's are in eight hours. */
const HOLD_MS = sized(2_000, 600_000);
const LONG = { heartbeatTimeout: "1d", detachGrace: "1d" } as const;
/** Of the pool, of upkeep, and the one that listens. */
const DATABASE_CONNECTIONS = 6;
const MEBIBYTE = 1024 * 1024;

/** The life of a server beside what it holds: calls, workers that come and go, waits that end without a result. */
class Churn {
  readonly #client: Trunkline;
  readonly #run: Run;
  readonly #waitsFor: CallHandle;
  rounds = 0;

  constructor(client: Trunkline, run: Run, waitsFor: CallHandle) {
    this.#client = client;
    this.#run = run;
    this.#waitsFor = waitsFor;
  }

  async go(rounds: number): Promise<void> {
    for (const until = this.rounds + rounds; this.rounds < until; this.rounds++) await this.#round();
  }

  async #round(): Promise<void> {
    const worker = this.#client.worker({ tools: { churn: (input: unknown) => input }, name: "churn" });
    expect(await this.#run.call("churn", this.rounds)).toBe(this.rounds);
    const waiting = new AbortController();
    const wait = this.#waitsFor.outcome({ signal: waiting.signal }).catch(() => undefined);
    await this.#run.call("churn", "again");
    waiting.abort();
    await wait;
    await worker.stop();
    await lasting(100);
  }
}

/** Calls that workers hold, that wait for an answer by id, and whose worker has died, with somebody who waits for each. */
async function hold(server: CountedServer["server"], run: Run) {
  const letGo = gate<null>();
  nodes.client(server.url).worker({
    name: "holder",
    concurrency: 2 * HELD,
    tools: {
      claimed: () => letGo.promise,
      deferred: async (_: unknown, ctx) => {
        await ctx.defer({ timeout: "3d" });
      },
    },
  });
  const open = (tool: string, input: unknown) =>
    Promise.all(Array.from({ length: HELD }, () => run.open(tool, input, { policy: LONG })));
  await using dying = new WorkerProcess({
    url: server.url,
    name: "dying",
    tools: ["detached"],
    concurrency: HELD,
  });
  await attached(nodes.database, dying);
  const claimed = await open("claimed", 1);
  const deferred = await open("deferred", 1);
  const orphaned = await open("detached", [{ wait: "for ever" }]);
  await until("all are held", async () => {
    const { rows } = await nodes.database
      .pool()
      .query<{ state: string; n: number }>(
        "SELECT state, count(*)::int AS n FROM calls GROUP BY 1 ORDER BY 1",
      );
    return (
      JSON.stringify(rows) ===
      JSON.stringify([
        { state: "claimed", n: 2 * HELD },
        { state: "deferred", n: HELD },
      ])
    );
  });
  await dying.kill();
  const finish = (): void => letGo.open(null);
  return { claimed, deferred, orphaned, finish, [Symbol.asyncDispose]: async () => finish() };
}

/** What a server holds when nobody comes or goes: what was closed takes a moment to be gone. */
async function quiet(counted: CountedServer): Promise<Census> {
  await lasting(500);
  return await counted.take();
}

function say(what: string, { timers, handles, descriptors, heapBytes, rssBytes }: Census): void {
  const mebibytes = (bytes: number): string => (bytes / MEBIBYTE).toFixed(1);
  figure(
    what,
    `${timers} timers, ${handles} handles, ${descriptors} files, heap ${mebibytes(heapBytes)} MiB, RSS ${mebibytes(rssBytes)} MiB`,
  );
}

/** Nothing has grown but by connections to the database, which come and go. */
function expectNoGrowth(before: Census, after: Census): void {
  expect(after.timers - before.timers).toBeLessThanOrEqual(DATABASE_CONNECTIONS);
  expect(after.handles - before.handles).toBeLessThanOrEqual(DATABASE_CONNECTIONS);
  expect(after.descriptors - before.descriptors).toBeLessThanOrEqual(DATABASE_CONNECTIONS);
  expect(after.heapBytes - before.heapBytes).toBeLessThan(sized(5, 10) * MEBIBYTE);
}

test(
  "detached, deferred and claimed calls cost no timer and no handle each, and nothing grows while they wait (I12)",
  { timeout: 2 * HOLD_MS + 60_000 },
  async () => {
    await using counted = await CountedServer.start({
      databaseUrl: nodes.database.url,
      heartbeatInterval: HEARTBEAT,
      flags: ["--pool", "2"],
    });
    const { server } = counted;
    const run = await nodes.client(server.url).runs.create();
    const without = await quiet(counted);
    say("without calls", without);
    await using held = await hold(server, run);
    const other = nodes.client(server.url);
    // One run: of the last 20,000 a node remembers what they are.
    const churn = new Churn(other, await other.runs.create(), held.orphaned[0]!);
    await churn.go(sized(5, 100));
    const before = await quiet(counted);
    say("at first", before);
    // A worker and its stream, the streams of two harnesses.
    expect(before.timers - without.timers).toBeLessThan(20);
    expect(before.handles - without.handles).toBeLessThan(20);
    const endsAt = performance.now() + HOLD_MS;
    while (performance.now() < endsAt) {
      await churn.go(sized(5, 100));
      say(`after ${churn.rounds} rounds`, await counted.take());
    }
    expectNoGrowth(before, await quiet(counted));
    held.finish();
    const outcomes = await Promise.all(held.claimed.map((call) => call.outcome()));
    expect(outcomes.filter(({ state, attempt }) => state !== "succeeded" || attempt !== 1)).toEqual([]);
    await run.end();
    const others = await Promise.all([...held.deferred, ...held.orphaned].map((call) => call.outcome()));
    expect(others.filter(({ state, attempt }) => state !== "canceled" || attempt !== 1)).toEqual([]);
    const after = await quiet(counted);
    say("with all calls ended", after);
    expectNoGrowth(before, after);
    expect(server.faults).toEqual([]);
  },
);
