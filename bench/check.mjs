// npm run bench:check [-- --write]: whether Trunkline is still as near to its floors as it was. Exits 1 when it is not.
// `--write` stores what was found; do that on a quiet machine.
import { readFileSync, writeFileSync } from "node:fs";
import { refuse } from "./options.mjs";
import { RATIOS } from "./ratios.mjs";
import { Report } from "./report.mjs";
import { databaseFloor, echoFloor } from "./scenarios/floor.mjs";
import { loneCalls } from "./scenarios/latency.mjs";
import { awaited, trunklineFor } from "./scenarios/throughput.mjs";
import { startPostgres } from "./stage/postgres.mjs";
import { trunkline } from "./stage/stack.mjs";
import { median, rounded } from "./statistics.mjs";

const STORED = new URL("ratios.json", import.meta.url);
/** Floor and load are measured by turns, so that a busy moment of the machine does not meet only one of them. */
const ROUNDS = 3;
const QUICK = {
  quick: true,
  full: false,
  rows: undefined,
  scenarios: [],
  peers: [],
  json: undefined,
  runs: 1,
  loneCalls: 300,
};

const given = process.argv.slice(2);
const isWriting = given.length === 1 && given[0] === "--write";
if (given.length > 0 && !isWriting) refuse("usage: npm run bench:check [-- --write]");

const found = await measure();
if (isWriting) store(found);
else if (!compare(found)) process.exit(1);

/** @returns {Promise<Record<string, number>>} */
async function measure() {
  /** @type {Record<string, number[]>} */
  const samples = Object.fromEntries(RATIOS.map(({ name }) => [name, []]));
  const postgres = await startPostgres();
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const report = new Report();
      const setting = { postgres, report, options: QUICK, peers: [] };
      await databaseFloor(setting, [100], false);
      await loneCalls(setting, [trunkline]);
      await echoFloor(setting, [500]);
      for (const callers of [100, 500]) await awaited(setting, callers, [trunklineFor(callers)]);
      for (const { name, of } of RATIOS) samples[name].push(of(report));
    }
  } finally {
    await postgres.stop();
  }
  return Object.fromEntries(RATIOS.map(({ name }) => [name, median(samples[name])]));
}

/** @param {Record<string, number>} ratios */
function store(ratios) {
  const { margin } = JSON.parse(readFileSync(STORED, "utf8"));
  const kept = Object.fromEntries(
    Object.entries(ratios).map(([name, value]) => [name, Number(value.toPrecision(3))]),
  );
  writeFileSync(STORED, `${JSON.stringify({ margin, ratios: kept }, null, 2)}\n`);
}

/** @param {Record<string, number>} ratios */
function compare(ratios) {
  const { margin, ratios: stored } = JSON.parse(readFileSync(STORED, "utf8"));
  console.log(`\nmargin ${margin * 100} %`);
  const worse = RATIOS.filter(({ name, better }) => {
    const limit = better === "more" ? stored[name] * (1 - margin) : stored[name] * (1 + margin);
    const isWorse = better === "more" ? ratios[name] < limit : ratios[name] > limit;
    const bound = better === "more" ? "at least" : "at most";
    const [now, was, allowed] = [ratios[name], stored[name], limit].map(rounded);
    console.log(
      `${isWorse ? "WORSE" : "ok   "} ${name}: ${now}; stored ${was}, so ${bound} ${allowed} is allowed`,
    );
    return isWorse;
  });
  return worse.length === 0;
}
