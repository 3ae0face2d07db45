/** Generates the code once more, elsewhere, and compares: `gen/src` is checked in and must be fresh. */

import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { ROOT, run } from "./run.mjs";

const GENERATED = path.join("gen", "src");

/**
 * @param {string} folder
 * @returns {Map<string, string>} The text of every file, by its path in the folder.
 */
const filesOf = (folder) => {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => statSync(path.join(folder, name)).isFile());
  return new Map(files.map((name) => [name, readFileSync(path.join(folder, name), "utf8")]));
};

/**
 * @param {Map<string, string>} fresh
 * @param {Map<string, string>} present
 * @returns {string[]} One line for each file that differs.
 */
const differences = (fresh, present) => {
  const names = [...new Set([...fresh.keys(), ...present.keys()])].sort();
  return names
    .filter((name) => fresh.get(name) !== present.get(name))
    .map((name) => {
      if (!present.has(name)) return `missing: ${name}`;
      return fresh.has(name) ? `stale: ${name}` : `has no source: ${name}`;
    });
};

const folder = mkdtempSync(path.join(tmpdir(), "trunkline-gen-"));
try {
  if (!run("buf", ["generate", "--output", folder])) {
    process.exitCode = 1;
  } else {
    const lines = differences(filesOf(path.join(folder, GENERATED)), filesOf(path.join(ROOT, GENERATED)));
    if (lines.length > 0) {
      console.error(`${GENERATED} is not what the protocol generates; run 'npm run generate'.`);
      console.error(lines.join("\n"));
      process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
