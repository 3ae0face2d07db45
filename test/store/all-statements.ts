import { readdir } from "node:fs/promises";
import { allStatements, type Statement } from "../../server/src/store/statement.js";

const folder = new URL("../../server/src/store/", import.meta.url);

for (const file of await readdir(folder)) {
  if (file.endsWith(".ts")) await import(new URL(file, folder).pathname);
}

/** Every statement of the store: importing this file loads all its modules. */
export const STATEMENTS: readonly Statement[] = allStatements();
