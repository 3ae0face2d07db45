import { readdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDERS = ["client/src", "server/src", "test", "examples", "bench", "tools"];
/** Names that say nothing about what is inside. */
const EMPTY_NAMES = ["utils", "util", "helpers", "helper", "common", "types", "misc", "shared"];

const sourcesOf = (folder: string): string[] =>
  readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|mjs|js)$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join("/"))
    .filter((file) => !/(^|\/)(dist|node_modules|workers)\//.test(file));

const files = FOLDERS.flatMap(sourcesOf);

/** The folders and the file of a path, without extensions: `test/core/call.test.ts` has three. */
const namesIn = (file: string): string[] => file.split("/").map((part) => part.split(".")[0] ?? part);

test("every source file and its folders are named in kebab case", () => {
  const odd = files.filter((file) => !namesIn(file).every((name) => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)));
  expect(files.length).toBeGreaterThan(10);
  expect(odd).toEqual([]);
});

test("no file or folder has a name that could hold anything", () => {
  expect(files.filter((file) => namesIn(file).some((name) => EMPTY_NAMES.includes(name)))).toEqual([]);
});
