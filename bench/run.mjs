// npm run bench -- [--quick | --full] [--scenario NAME...] [--peer NAME... | --peer none] [--rows N] [--json FILE]
import { writeFileSync } from "node:fs";
import { commit, machine } from "./machine.mjs";
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
console.log(`${machine()}, commit ${commit()}, medians of ${options.runs}\n`);
const peers = choosePeers(options.peers, report);
const postgres = await startPostgres();
try {
  for (const name of names) await SCENARIOS[name]({ postgres, report, options, peers });
} finally {
  await postgres.stop();
}
console.log(`\n${report.table()}`);
if (options.json !== undefined) {
  const { results } = report;
  writeFileSync(
    options.json,
    `${JSON.stringify({ machine: machine(), commit: commit(), results }, null, 2)}\n`,
  );
}
