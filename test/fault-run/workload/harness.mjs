/** A harness: makes runs, opens calls at a steady rate, alone and in turns, and waits for what becomes of them. */
import { Trunkline } from "@trunkline/sdk";
import { History, readHistory } from "../history.mjs";
import { Random } from "../random.mjs";
import { Calls } from "./calls.mjs";
import { readConfig, sleep, tellDriver } from "./program.mjs";
import { RunMaker } from "./runs.mjs";
import { boundsOf, makeInput, pickTool, toolOf } from "./tools.mjs";

const TICK_MS = 25;
/** Calls that are waited for at once; above, no more are opened until some have ended. */
const MOST_PENDING = 600;
const LOOK_MS = 100;

const config = readConfig();
const before = readHistory(config.folder, config.name);
const history = new History(config.folder, config.name, config.life);
history.write({ type: "life" });
const random = new Random(`${config.seed}/${config.name}/${config.life}`);
// For calls and requests alike: as long as it takes.
const trunkline = new Trunkline({ url: config.url, retryFor: "10m", onWarning: () => undefined });
const calls = new Calls({ trunkline, history, random: random.fork("calls") });
const runs = new RunMaker({
  trunkline,
  history,
  random: random.fork("runs"),
  name: `${config.name}-${config.life}`,
  calls,
});
let left = config.maxCalls - before.filter(({ type }) => type === "opening").length;
let finishing = false;
let made = 0;

/** What earlier lives have opened and did not see the end of: opening it again names the same call. */
function resume() {
  const over = new Set();
  for (const event of before) {
    if (event.type === "outcome") over.add(event.id);
    else if (event.type === "refused" && event.what === "open") over.add(event.subject);
  }
  const ids = new Map();
  for (const event of before) if (event.type === "opened") ids.set(`${event.run} ${event.key}`, event.id);
  for (const event of before) {
    if (event.type !== "opening") continue;
    const subject = `${event.run} ${event.key}`;
    if (over.has(subject) || over.has(ids.get(subject))) continue;
    over.add(subject);
    calls.pursue(event);
  }
}

/**
 * @param {string} run
 * @param {string} tool
 * @param {number | null} turn
 */
function prepare(run, tool, turn) {
  made++;
  left--;
  const key = `${config.name}-${config.life}-${made}`;
  const inputJson = JSON.stringify(makeInput(tool, key, random));
  return { run, key, tool, client: toolOf(tool).client === true, turn, bounds: boundsOf(tool), inputJson };
}

/**
 * Opens one call, or some of one turn; how many.
 *
 * @param {import("./runs.mjs").MadeRun} run
 */
function openSome(run) {
  const tool = () => {
    const picked = pickTool(random);
    // Only a toolset says that the harness's side executes a tool.
    return run.toolset || toolOf(picked).client !== true ? picked : "fast";
  };
  if (left < 6 || !random.chance(0.03)) {
    calls.open(prepare(run.id, tool(), null));
    return 1;
  }
  const count = random.int(2, 6);
  const turn = ++run.turns;
  // Nobody answers those before the end; a turn with one would not settle in the time of faults.
  const tools = Array.from({ length: count }, tool).map((name) => (name === "patient" ? "fast" : name));
  calls.openTurn(
    trunkline.runs.open(run.id).turn(turn),
    tools.map((name) => prepare(run.id, name, turn)),
  );
  return count;
}

async function work() {
  await runs.prepare();
  resume();
  let last = performance.now();
  let due = 0;
  while (!finishing) {
    await sleep(TICK_MS);
    const now = performance.now();
    // What could not be opened in time is not made up for.
    due = Math.min(due + ((now - last) / 1_000) * config.ratePerSecond, config.ratePerSecond / 4);
    last = now;
    while (due >= 1 && left > 0 && calls.pending < MOST_PENDING && !finishing) {
      const run = runs.current();
      if (run === undefined) break;
      const opened = openSome(run);
      due -= opened;
      run.left -= opened;
    }
  }
  while (calls.pending + runs.pending > 0) await sleep(LOOK_MS);
  tellDriver({ type: "done" });
}

process.on("message", (/** @type {{ type: string }} */ message) => {
  if (message.type === "finish") finishing = true;
  if (message.type === "give up") {
    for (const subject of [...calls.waiting(), ...runs.waiting()]) {
      history.write({ type: "undelivered", subject });
    }
    tellDriver({ type: "done" });
  }
});
process.on("SIGTERM", () => process.exit(0));
tellDriver({ type: "ready" });
await work();
