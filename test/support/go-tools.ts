import { existsSync } from "node:fs";
import { GO_TOOLS, goToolFolder } from "../../tools/go-tools.mjs";

const names = Object.keys(GO_TOOLS) as (keyof typeof GO_TOOLS)[];
const missing = names.filter((name) => !existsSync(`${goToolFolder(name)}/${name}`));

// Where all tests have to run, none may be left out in silence.
if (missing.length > 0 && process.env["CI"] !== undefined) {
  throw new Error(`${missing.join(" and ")} must be there in CI: run node tools/install-go-tools.mjs`);
}

/** Whether the programs of `tools/go-tools.mjs` are installed. */
export const HAS_GO_TOOLS = missing.length === 0;

/** What to put behind the title of tests that are skipped without them. */
export const GO_TOOLS_NOTE = HAS_GO_TOOLS
  ? ""
  : ` (skipped: ${missing.join(" and ")} not installed; node tools/install-go-tools.mjs builds them)`;

/** Folders for the `PATH`. */
export const GO_TOOL_FOLDERS = names.map(goToolFolder);
