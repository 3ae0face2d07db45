/**
 * Asks the registry which packages of the lockfile have known faults (`npm audit`). Fails where one comes along with
 * what is published here, unless docs/dependencies.md explains it by its id; tells of those in tools. Passes, and says
 * so, where the registry does not answer: then nothing is known.
 */

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "./run.mjs";

const DOCUMENT = "docs/dependencies.md";
/** npm would otherwise try for minutes. */
const PATIENCE = { npm_config_fetch_retries: "0", npm_config_fetch_timeout: "10000" };

/**
 * @typedef {{ readonly name: string, readonly severity: string, readonly title: string, readonly url: string }} Advisory
 * @typedef {{ readonly via: readonly (string | Advisory)[], readonly nodes: readonly string[] }} Finding
 * @typedef {{ readonly vulnerabilities?: Readonly<Record<string, Finding>>, readonly message?: string }} Report
 */

/** @param {string} file */
const text = (file) => readFileSync(path.join(ROOT, file), "utf8");

/** @returns {Report} */
const ask = () => {
  const env = { ...process.env, ...PATIENCE };
  const { stdout, error } = spawnSync("npm", ["audit", "--json"], { cwd: ROOT, env, encoding: "utf8" });
  if (error !== undefined) return { message: error.message };
  try {
    return JSON.parse(stdout);
  } catch {
    return { message: "npm audit printed no JSON" };
  }
};

const { vulnerabilities, message = "the registry told nothing" } = ask();
if (vulnerabilities === undefined) {
  // Without the address that it gives: it may hold a user's name.
  console.log(`NOT CHECKED for known faults: ${message.split(" - ")[0]}`);
} else {
  const { packages } = JSON.parse(text("package-lock.json"));
  const explained = text(DOCUMENT);
  // `devOptional`: a peer that users bring themselves, if they do.
  const isPublished = (/** @type {string} */ node) =>
    packages[node]?.dev !== true && packages[node]?.devOptional !== true;
  let open = 0;
  for (const { via, nodes } of Object.values(vulnerabilities)) {
    for (const advisory of via) {
      // A name stands for a package that is only affected through another one, which has its own entry.
      if (typeof advisory === "string") continue;
      const { name, severity, title, url } = advisory;
      const id = url.split("/").at(-1) ?? url;
      const isOpen = nodes.some(isPublished) && !explained.includes(id);
      if (isOpen) open++;
      const state = isOpen ? "FAULT" : nodes.some(isPublished) ? "explained" : "in a tool";
      console.log(`${state}: ${name}: ${title} (${severity}, ${url})`);
    }
  }
  console.log(`${String(open)} known faults in what is published that ${DOCUMENT} does not explain`);
  process.exitCode = open === 0 ? 0 : 1;
}
