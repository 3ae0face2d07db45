/** Builds the programs of `go-tools.mjs` where they are not yet: two minutes the first time. It needs Go. */

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { GO_TOOLS, goToolFolder } from "./go-tools.mjs";

for (const name of /** @type {(keyof typeof GO_TOOLS)[]} */ (Object.keys(GO_TOOLS))) {
  const folder = goToolFolder(name);
  if (existsSync(path.join(folder, name))) continue;
  console.log(`building ${GO_TOOLS[name]}`);
  const env = { ...process.env, GOBIN: folder };
  const { status, error } = spawnSync("go", ["install", GO_TOOLS[name]], { env, stdio: "inherit" });
  if (status === 0) continue;
  console.error(`${name} was not built${error === undefined ? "" : `: ${error.message}`}`);
  process.exitCode = 1;
}
