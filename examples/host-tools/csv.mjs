import { readFile } from "node:fs/promises";

/**
 * Reads a CSV file with a heading line; fields may be quoted.
 *
 * @param {string | URL} file
 * @returns {Promise<Record<string, string>[]>} One object per line, by the names in the heading.
 */
export async function readCsv(file) {
  const [head = [], ...rows] = (await readFile(file, "utf8")).trimEnd().split("\n").map(splitLine);
  return rows.map((fields) => Object.fromEntries(head.map((name, index) => [name, fields[index] ?? ""])));
}

/** @param {string} line */
function splitLine(line) {
  const fields = line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g);
  return [...fields].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "");
}
