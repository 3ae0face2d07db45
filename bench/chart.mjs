// npm run bench:chart -- RESULTS.json [FOLDER]: the chart, for white and for dark pages, and a page with all tables.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drawing, THEMES } from "./drawing.mjs";
import { refuse } from "./options.mjs";
import { page } from "./page.mjs";

const RESULTS = fileURLToPath(new URL("results/", import.meta.url));

const [input, folder = RESULTS] = process.argv.slice(2);
if (input === undefined) refuse("usage: npm run bench:chart -- RESULTS.json [FOLDER]");

/** @type {import("./drawing.mjs").Run} */
const run = JSON.parse(readFileSync(input, "utf8"));
const light = drawing(run, THEMES.light);
if (light === undefined) refuse(`${input} has no throughput and no latency`);
mkdirSync(folder, { recursive: true });
write("chart.svg", light);
write("chart-dark.svg", drawing(run, THEMES.dark));
write("README.md", page(run));

function write(name, content) {
  const file = join(folder, name);
  writeFileSync(file, content);
  console.log(file);
}
