import { appendFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { EVIDENCE_DIR } from "./places.mjs";

/**
 * Writes down what was done, before it is done, if somebody wants to know.
 *
 * @param {"work" | "prompts"} kind
 * @param {object} entry
 */
export async function witness(kind, entry) {
  if (EVIDENCE_DIR === undefined) return;
  await mkdir(EVIDENCE_DIR, { recursive: true });
  await appendFile(join(EVIDENCE_DIR, `${kind}.jsonl`), `${JSON.stringify(entry)}\n`);
}
