// node bench/tune.mjs SUBJECT LOAD SETTINGS...: one subject with several settings, by turns, on a quiet machine:
//   node bench/tune.mjs pg-boss bulk '{"concurrency":500}' '{"concurrency":1000,"loops":2}'
// What is found best goes into the subject's file.
import { readOptions, refuse } from "./options.mjs";
import { PEERS } from "./peers.mjs";
import { Report } from "./report.mjs";
import { loneCalls } from "./scenarios/latency.mjs";
import { awaited, bulk, COMPARED_CALLERS, unawaited } from "./scenarios/throughput.mjs";
import { startPostgres } from "./stage/postgres.mjs";
import { trunkline } from "./stage/stack.mjs";

const LOADS = {
  lone: loneCalls,
  awaited: (setting, contestants) => awaited(setting, COMPARED_CALLERS, contestants),
  unawaited,
  bulk,
};

const [name, load, ...texts] = process.argv.slice(2);
const subject = [trunkline, ...PEERS].find((each) => each.subject === name);
if (subject === undefined || LOADS[load] === undefined) {
  const subjects = [trunkline, ...PEERS].map((each) => `"${each.subject}"`).join(", ");
  refuse(`a subject of ${subjects} and a load of ${Object.keys(LOADS).join(", ")}, please`);
}

const contestants = texts.map((text) => ({ ...subject, subject: text, settings: JSON.parse(text) }));
const options = { ...readOptions(["--quick"]), runs: 3 };
const postgres = await startPostgres();
try {
  await LOADS[load]({ postgres, report: new Report(), options, peers: [] }, contestants);
} finally {
  await postgres.stop();
}
