// How long the single calls of one end user wait while another has a long backlog for the same workers.
//
// A pool serves ten tools. Every 50 ms an end user, "rare", opens one call: how long until its handler starts? On the
// idle pool; beside an end user with as many callers as the pool has slots, each of whom awaits its result before the
// next call, so that the pool is as busy as can be and nothing is queued before the rare call, which is what "alone"
// means here; and beside 150,000 queued calls of another end user. In the order of opening a rare call would wait for
// all of those.
import { startProgram } from "../stage/program.mjs";
import { startServer } from "../stage/server.mjs";
import { onStage } from "../stage/stack.mjs";
import { storeCalls, toolsOf } from "../stage/stored-calls.mjs";
import { percentile } from "../statistics.mjs";

const TOOLS = 10;
const SLOTS = 50;
const HANDLER_MS = 10;
const BACKLOG = 150_000;
const EVERY_MS = 50;
const WARM_UP_SECONDS = 3;
/** Handlers that start before the backlog counts as being worked on. */
const UNDER_WAY = 1_000;

const IDLE = "idle pool";
const BUSY = "alone on a busy pool";
const QUEUED = `beside ${BACKLOG.toLocaleString("en")} queued calls`;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function fairness({ postgres, report, options }) {
  const calls = options.quick ? 100 : 300;
  /** @type {Map<string, number[][]>} */
  const waits = new Map([IDLE, BUSY, QUEUED].map((variant) => [variant, []]));
  for (let run = 0; run < options.runs; run++) {
    await onStage(async (stage) => {
      const place = await users(stage, postgres);
      for (const [variant, samples] of waits) samples.push(await waitsOf(place, variant, calls));
    });
  }
  const figure = { scenario: "fairness", subject: "trunkline" };
  for (const [variant, samples] of waits) {
    for (const [name, part] of Object.entries({ p50: 0.5, p99: 0.99 })) {
      const metric = `open to start of a rare call, ${name}`;
      report.add(
        { ...figure, variant, metric, unit: "ms" },
        samples.map((each) => percentile(each, part)),
      );
    }
  }
  const ratios = waits
    .get(QUEUED)
    .map((each, run) => percentile(each, 0.99) / percentile(waits.get(BUSY)[run], 0.99));
  report.add({ ...figure, variant: QUEUED, metric: "p99 in times of alone", unit: "x" }, ratios);
}

/** A server, a pool, the rare end user and the big one. */
async function users(stage, postgres) {
  const database = await stage.database(postgres.url);
  const { url } = await stage.start(startServer(database.url));
  const tools = toolsOf("queued", TOOLS);
  const pool = await stage.start(startProgram("pool", { url, tools, slots: SLOTS, handlerMs: HANDLER_MS }));
  const [rare, big] = await Promise.all(
    ["rare", "big"].map((namespace) => stage.start(startProgram("end-user", { url, tools, namespace }))),
  );
  await pool.ask("watch", { namespace: "rare" });
  const place = { database, pool, rare, big };
  await beside(big, WARM_UP_SECONDS, () => rare.ask("steadily", { calls: 20, everyMs: EVERY_MS }));
  await pool.ask("starts", { namespace: "rare" });
  return place;
}

/** Milliseconds from the opening of each rare call to its handler's start. */
async function waitsOf({ database, pool, rare, big }, variant, calls) {
  const measured = () => rare.ask("steadily", { calls, everyMs: EVERY_MS });
  if (variant === QUEUED) {
    await storeCalls(database, "queued", BACKLOG, { tools: TOOLS, namespace: "big" });
    await pool.ask("reach", { calls: UNDER_WAY });
  }
  const seconds = (calls * EVERY_MS) / 1_000;
  const { opened } = variant === BUSY ? await beside(big, seconds, measured) : await measured();
  const { starts } = await pool.ask("starts", { namespace: "rare" });
  if (variant === QUEUED) await checkBacklog(database);
  const startOf = new Map(starts.map(({ n, at }) => [n, at]));
  return opened.map(({ n, at }) => startOf.get(n) - at);
}

/** Does something while the big end user keeps all slots busy. */
async function beside(big, seconds, work) {
  const [found] = await Promise.all([work(), big.ask("callers", { callers: SLOTS, seconds })]);
  return found;
}

async function checkBacklog(database) {
  const [{ left }] = await database.query(
    "SELECT count(*)::integer AS left FROM calls WHERE state = 'queued'",
  );
  if (left < SLOTS) throw new Error("the backlog was worked off before the measurement ended");
}
