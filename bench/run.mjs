// npm run bench -- --help
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { commit, machine, versions } from "./machine.mjs";
import { readOptions, refuse } from "./options.mjs";
import { choosePeers, PEERS } from "./peers.mjs";
import { Report } from "./report.mjs";
import { SCENARIOS } from "./scenarios.mjs";
import { startPostgres } from "./stage/postgres.mjs";

const options = readOptions(process.argv.slice(2));
const names = options.scenarios.length > 0 ? options.scenarios : Object.keys(SCENARIOS);
for (const name of names) {
  if (SCENARIOS[name] === undefined) {
    refuse(`no scenario ${name}; there are ${Object.keys(SCENARIOS).join(", ")}`);
  }
}
for (const name of options.peers ?? []) {
  if (!PEERS.some((peer) => peer.name === name)) {
    refuse(`no peer ${name}; there are ${[...new Set(PEERS.map((peer) => peer.name))].join(", ")}, none`);
  }
}

const report = new Report();
const head = { machine: machine(), commit: commit(), runs: options.runs, versions: versions() };
console.log(`${head.machine}, commit ${head.commit}, medians of ${head.runs}\n`);
const peers = choosePeers(options.peers, report);
const postgres = await startPostgres();
try {
  for (const name of names) {
    const startedAt = performance.now();
    await SCENARIOS[name]({ postgres, report, options, peers });
    console.log(`${name} took ${Math.round((performance.now() - startedAt) / 1_000)} s\n`);
    if (options.json !== undefined) write(options.json);
  }
} finally {
  await postgres.stop();
}
console.log(report.tables());

/** What there is so far; a long run that fails late has not been for nothing. */
function write(file) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify({ ...head, results: report.results }, null, 2)}\n`);
}
