/** Holds the protocol against every release whose schema is in `proto/releases`: their clients are still served. */

import { readdirSync } from "node:fs";
import path from "node:path";
import { ROOT, run } from "./run.mjs";

const RELEASES = path.join("proto", "releases");

for (const file of readdirSync(path.join(ROOT, RELEASES)).sort()) {
  if (run("buf", ["breaking", "--against", path.join(RELEASES, file)])) continue;
  console.error(`the protocol breaks ${file}`);
  process.exitCode = 1;
}
