/** Everything that CI checks, in order; stops at the first failure. `npm run verify`. */

import { run } from "./run.mjs";

/**
 * A short fault run, with a new seed each time, which it prints: 80 calls a second leave room for the faults on
 * two busy cores.
 */
const FAULT_RUN = ["--seconds", "60", "--nodes", "3", "--calls", "4800"];

/** @type {readonly (readonly [name: string, command: string, ...args: string[]])[]} */
const STEPS = [
  ["build", "npm", "run", "--silent", "build"],
  ["lint", "npm", "run", "--silent", "lint"],
  ["format", "npm", "run", "--silent", "format:check"],
  ["protocol: lint", "buf", "lint"],
  ["protocol: format", "buf", "format", "--diff", "--exit-code"],
  ["protocol: breaking changes", "node", "tools/buf-breaking.mjs"],
  ["protocol: breaking changes since each release", "node", "tools/buf-releases.mjs"],
  ["generated code is fresh", "node", "tools/check-generated.mjs"],
  ["package: gen", "publint", "run", "--strict", "gen"],
  ["package: client", "publint", "run", "--strict", "client"],
  ["package: server", "publint", "run", "--strict", "server"],
  ["known faults of packages", "node", "tools/audit.mjs"],
  ["test", "npm", "test"],
  ["test: long ones", "npm", "run", "--silent", "test:long"],
  ["fault", "npm", "run", "--silent", "fault", "--", ...FAULT_RUN],
];

const since = (/** @type {number} */ start) => `${((performance.now() - start) / 1000).toFixed(1)} s`;

const begun = performance.now();
for (const [name, command, ...args] of STEPS) {
  const start = performance.now();
  const passed = run(command, args);
  console.log(`${passed ? "ok    " : "FAILED"} ${name} (${since(start)})`);
  if (!passed) {
    console.error(`verify stopped at: ${name} (${[command, ...args].join(" ")})`);
    process.exit(1);
  }
}
console.log(`verified in ${since(begun)}`);
