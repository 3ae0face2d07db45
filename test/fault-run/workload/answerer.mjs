/** Answers deferred calls from outside, by the tokens that workers leave in files, or by their ids. */
import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { History, readHistory } from "../history.mjs";
import { Random } from "../random.mjs";
import { readConfig, sleep, tellDriver } from "./program.mjs";
import { sumOf } from "./tools.mjs";

/** @typedef {import("../events.mjs").Said} Said */
/**
 * @typedef {object} Note What a worker leaves.
 * @property {string} id
 * @property {number} attempt
 * @property {string} token
 * @property {import("./tools.mjs").Input} plan
 * @property {string} inputJson
 */

const ENDING = ".tokens.jsonl";
const LOOK_MS = 100;
/** A token is good once its deferral is stored, which takes as long as the faults want. */
const NOT_YET_MS = 500;
const GIVE_UP_MS = 120_000;

const config = readConfig();
const before = readHistory(config.folder, config.name);
const history = new History(config.folder, config.name, config.life);
history.write({ type: "life" });
const trunkline = new Trunkline({ url: config.url, retryFor: "5m", onWarning: () => undefined });
const random = new Random(`${config.seed}/${config.name}/${config.life}`);

/** Calls that an earlier life has answered for good, or was told that nobody can. */
const settled = new Set();
for (const event of before) {
  if (event.type === "answered" && (event.said.failure?.retryable ?? false) === false) settled.add(event.id);
}

/** @type {(value?: unknown) => void} */
let faultsOver = () => undefined;
const over = new Promise((resolve) => {
  faultsOver = resolve;
});

/**
 * @param {Note} note
 * @returns {{ said: Said, how: import("./tools.mjs").AnswerPlan["how"] } | undefined}
 */
function decide({ attempt, plan, inputJson }) {
  const answer = plan.answer;
  if (answer === undefined) return undefined;
  const by = `attempt ${attempt} for ${config.name}#${config.life}`;
  if (attempt <= answer.retries) {
    return {
      said: { failure: { kind: "tool", message: `again: ${by}`, retryable: true } },
      how: answer.how === "complete" || answer.how === "fail" ? "fail" : "refuse",
    };
  }
  const failure = { kind: "tool", message: `no: ${by}`, retryable: false };
  const result = { resultJson: JSON.stringify({ sum: sumOf(inputJson), by }) };
  return { said: answer.how === "fail" || answer.how === "refuse" ? { failure } : result, how: answer.how };
}

/** @param {Note} note */
async function answer(note) {
  const { id, plan } = note;
  const decided = decide(note);
  if (decided === undefined || settled.has(id)) return;
  if (plan.answer?.patient) await over;
  else await sleep(plan.answer?.delayMs ?? 0);
  const { said, how } = decided;
  const by = how === "complete" || how === "fail" ? "token" : "id";
  const giveUpAt = performance.now() + GIVE_UP_MS;
  history.write({ type: "answering", id, by, said });
  for (;;) {
    try {
      const state = await send(note, said, by);
      history.write({ type: "answered", id, by, said, state });
      return;
    } catch (error) {
      const reason = error instanceof TrunklineError ? error.reason : "EXCEPTION";
      if (reason !== "TOKEN_INVALID" || performance.now() > giveUpAt) {
        const message = String(error);
        history.write({
          type: "refused",
          what: "answer",
          subject: id,
          attempt: note.attempt,
          reason,
          message,
        });
        return;
      }
      await sleep(NOT_YET_MS);
    }
  }
}

/**
 * @param {Note} note
 * @param {Said} said
 * @param {"token" | "id"} by
 * @returns {Promise<string>} The call's state.
 */
async function send({ id, attempt, token }, said, by) {
  const { failure } = said;
  if (by === "token") {
    if (failure !== undefined) {
      const { message, retryable } = failure;
      return (await trunkline.tasks.fail(token, { message, retryable })).state;
    }
    await trunkline.tasks.complete(token, JSON.parse(said.resultJson));
    return "succeeded";
  }
  // Half of them say which attempt they mean.
  const meant = random.chance(0.5) ? { attempt } : {};
  return failure === undefined
    ? trunkline.calls.settle(id, { type: "tool.result", result: JSON.parse(said.resultJson), ...meant })
    : trunkline.calls.settle(id, {
        type: "tool.error",
        error: failure.message,
        retryable: failure.retryable,
        ...meant,
      });
}

/** Whether this one, or another of its kind, answers the call. @param {Note} note */
const isMine = ({ id, plan }) => {
  const share = Number.parseInt(sumOf(id).slice(0, 8), 16) % config.count;
  return share === config.index || plan.answer?.contested === true;
};

/** @type {Map<string, { offset: number, rest: string }>} */
const read = new Map();

/** @returns {Promise<Note[]>} What came since the last look. */
async function look() {
  /** @type {Note[]} */
  const notes = [];
  for (const file of readdirSync(config.folder).filter((name) => name.endsWith(ENDING))) {
    const at = read.get(file) ?? { offset: 0, rest: "" };
    const handle = await open(join(config.folder, file));
    const { size } = await handle.stat();
    const bytes = Buffer.alloc(size - at.offset);
    await handle.read(bytes, 0, bytes.length, at.offset);
    await handle.close();
    const lines = (at.rest + bytes.toString("utf8")).split("\n");
    read.set(file, { offset: size, rest: lines.pop() ?? "" });
    for (const line of lines) {
      try {
        if (line !== "") notes.push(JSON.parse(line));
      } catch {
        // Cut short by a kill: that token was never used.
      }
    }
  }
  return notes;
}

process.on("message", (/** @type {{ type: string }} */ message) => {
  if (message.type === "finish") faultsOver();
});
process.on("SIGTERM", () => process.exit(0));
tellDriver({ type: "ready" });
for (;;) {
  for (const note of await look()) if (isMine(note)) void answer(note);
  await sleep(LOOK_MS);
}
