/**
 * Checks a finished session: that a provider would take its conversation, that its run has exactly the calls that the
 * model asked for, and, with EVIDENCE_DIR, that each attempt was started once and the model asked no more than needed.
 *
 *     node check-transcript.mjs SESSION [OTHER]      with OTHER, a session of the same request: answered alike
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Trunkline } from "@trunkline/sdk";
import { faultsOf, finalAnswer } from "./checks.mjs";
import { EVIDENCE_DIR, SESSIONS_DIR } from "./places.mjs";
import { fileOf, recordsOf } from "./transcript.mjs";

const [, , session = "", other] = process.argv;
if (session === "") {
  console.error("usage: node check-transcript.mjs SESSION [OTHER]");
  process.exit(2);
}

const records = await read(session);
const calls = await callsOf(records);
const work = await evidence("work");
const prompts = (await evidence("prompts"))?.filter((prompt) => prompt.session === session);
const faults = faultsOf({ records, calls, work, prompts });
const answer = finalAnswer(records);
if (other !== undefined && answer !== finalAnswer(await read(other))) faults.push(`not answered as ${other}`);
for (const fault of faults) console.error(`FAULT ${fault}`);
const engines = new Set(records.map(({ engine }) => engine)).size;
const starts = work?.filter(({ callId }) => calls.some(({ id }) => id === callId)).length ?? "unknown";
console.log(
  `${session}: ${records.length} records by ${engines} engines, ${calls.length} calls, ${starts} starts, ` +
    `${prompts?.length ?? "unknown"} prompts; ${faults.length} faults`,
);
process.exitCode = faults.length === 0 ? 0 : 1;

/** @param {string} name Of a session. */
async function read(name) {
  return recordsOf(await readFile(fileOf(SESSIONS_DIR, name), "utf8"));
}

/** @param {readonly import("./transcript.mjs").Stored[]} stored */
async function callsOf(stored) {
  const run = stored.find((record) => record.type === "run");
  /** @type {import("@trunkline/sdk").Call[]} */
  const found = [];
  if (run === undefined) return found;
  const trunkline = new Trunkline();
  for await (const call of await trunkline.calls.list({ run: run.id, payloads: true })) found.push(call);
  await trunkline.close();
  return found;
}

/**
 * @param {"work" | "prompts"} kind
 * @returns {Promise<any[] | undefined>}
 */
async function evidence(kind) {
  if (EVIDENCE_DIR === undefined) return undefined;
  const text = await readFile(join(EVIDENCE_DIR, `${kind}.jsonl`), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}
