/** The driver of one fault run; started by run.mjs, which clears up after it whatever happens to it. */
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check } from "./checker.mjs";
import { History, readHistories } from "./history.mjs";
import { Nemesis } from "./nemesis/nemesis.mjs";
import { makePlan } from "./nemesis/plan.mjs";
import { commandOf } from "./options.mjs";
import { Random } from "./random.mjs";
import { makeReport, printReport } from "./report.mjs";
import { Cluster } from "./stage/cluster.mjs";
import { countOpen, writeClock, writeFinalRows, writeWaiting } from "./stage/final-rows.mjs";
import { findFaketime } from "./stage/faketime.mjs";
import { Database, Postgres } from "./stage/postgres.mjs";

/** When all is healed, no call may stand still for so long: leases and backoffs are far shorter. */
const STUCK_MS = 45_000;
const LOOK_MS = 300;

/** @type {{ options: import("./options.mjs").Options, folder: string }} */
const { options, folder } = JSON.parse(process.env["FAULT_RUN"] ?? "null");
const histories = join(folder, "histories");
const databaseName = `trunkline_fault_${process.pid}_${Date.now()}`;
const faketime = findFaketime();

const postgres = await Postgres.start(folder, process.env["DATABASE_URL"] || undefined);
const maintenance = new Database(postgres.url);
await maintenance.query(`CREATE DATABASE ${databaseName}`);
/** @type {History | undefined} */
let history;
const cluster = new Cluster({
  ...{ folder: histories, postgres, database: databaseName, options, faketime },
  onCrash: (name, how) => history?.write({ type: "crashed", name, how }),
});

process.on("message", (/** @type {{ type: string }} */ { type }) => {
  if (type === "interrupt") void leave("interrupted");
});
process.on("disconnect", () => void leave("left alone"));

process.exit(await run());

/** @returns {Promise<number>} The status. */
async function run() {
  const began = performance.now();
  console.log(
    `seed ${options.seed}: ${options.calls} calls in ${options.seconds} s on ${options.nodes} nodes`,
  );
  if (faketime === undefined) console.log("clocks are not shifted: libfaketime is not installed");
  if (!postgres.isOwn)
    console.log("PostgreSQL is not restarted: DATABASE_URL names the server of somebody else");
  await cluster.start();
  console.log(`started; histories, logs and the plan: ${folder}`);
  history = new History(histories, "driver", 1);
  await writeClock(cluster.look, history);
  await rage(history);
  await drain(history);
  await writeFinalRows(cluster.look, history);
  const audited = await cluster.audit();
  await writeClock(cluster.look, history);
  history.close();
  await clear();
  return judge(performance.now() - began, audited);
}

/** @param {History} into */
async function rage(into) {
  const durationMs = options.seconds * 1_000;
  const random = new Random(`${options.seed}/plan`);
  const plan = makePlan(random, cluster.topology(), { durationMs, only: options.only });
  writeFileSync(join(folder, "plan.json"), `${JSON.stringify(plan, null, 1)}\n`);
  const nemesis = new Nemesis(cluster, into);
  await nemesis.rage(plan, durationMs);
  await nemesis.heal();
}

/**
 * Waits until every call has ended and everybody has heard of it, or nothing moves any more.
 *
 * @param {History} into
 */
async function drain(into) {
  for (const harness of cluster.harnesses) harness.tell({ type: "finish" });
  const others = await untilStill(({ open, patient }) => open === patient);
  if (others) await writeWaiting(cluster.look, into);
  for (const answerer of cluster.answerers) answerer.tell({ type: "finish" });
  const all = await untilStill(({ open }) => open === 0 && cluster.harnesses.every(({ done }) => done));
  if (all) return;
  for (const harness of cluster.harnesses) harness.tell({ type: "give up" });
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}

/**
 * @param {(count: { open: number, patient: number }) => boolean} isOver
 * @returns {Promise<boolean>} False: nothing has moved for too long.
 */
async function untilStill(isOver) {
  let least = Infinity;
  let movedAt = performance.now();
  for (;;) {
    const count = await countOpen(cluster.look);
    if (isOver(count)) return true;
    if (count.open < least) {
      least = count.open;
      movedAt = performance.now();
    }
    if (performance.now() - movedAt > STUCK_MS) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Ends everything that this run has started. */
async function clear() {
  await cluster.stop();
  await maintenance.close();
  if (!postgres.isOwn)
    await maintenance.query(`DROP DATABASE ${databaseName} WITH (FORCE)`).finally(() => maintenance.close());
  await postgres.stop();
}

/**
 * @param {number} tookMs
 * @param {boolean} audited
 */
function judge(tookMs, audited) {
  const events = readHistories(histories);
  const violations = check(events);
  if (!events.some(({ type }) => type === "row"))
    violations.push({ rule: "something is done", message: "there is not a single call", events: [] });
  if (!audited)
    violations.push({
      rule: "audit",
      message: "the last reading of all calls did not come to its end",
      events: [],
    });
  const commit = commitOf();
  const report = makeReport({
    options,
    events,
    violations,
    tookMs,
    commit,
    faketime: faketime !== undefined,
    lives: cluster.lives(),
  });
  printReport(report);
  if (options.json !== null) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  rmSync(join(folder, "postgres"), { recursive: true, force: true });
  if (violations.length > 0 || options.keep) console.log(`kept: ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
  console.log(`again: ${commandOf(options)}`);
  return violations.length > 0 ? 1 : 0;
}

function commitOf() {
  try {
    const output = {
      encoding: /** @type {const} */ ("utf8"),
      stdio: /** @type {any} */ (["ignore", "pipe", "ignore"]),
    };
    return execFileSync("git", ["rev-parse", "--short", "HEAD"], output).trim();
  } catch {
    return "unknown";
  }
}

/** @param {string} why */
async function leave(why) {
  console.error(`${why}: ending everything`);
  await clear().catch(() => undefined);
  rmSync(folder, { recursive: true, force: true });
  process.exit(1);
}
