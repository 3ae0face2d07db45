import { BatchError } from "@trunkline/sdk";
import { messagesOf } from "./messages.mjs";
import { TOOLSET, tools } from "./toolset.mjs";

const SYSTEM = "You are a travel desk. Use the tools; when a tool fails, say so, or try something else.";

/** A model that has not come to an end by then does not. */
const MAX_TURNS = 32;

/**
 * A tool call that was not opened, and how a tool call ended.
 *
 * @typedef {{ state: "refused", error: { message: string } }} Refusal
 * @typedef {import("@trunkline/sdk").Outcome | Refusal} End
 */

/** A key of a call has at most so many bytes. */
const MAX_KEY_BYTES = 256;

/** Refusals of a call that are the model's fault: it is told of them, and may do better. */
const MODELS_FAULT = /^(SCHEMA_VIOLATION|TOOL_UNKNOWN|INVALID_FIELD|INVALID_JSON|LIMIT_EXCEEDED)$/;

/**
 * Does what a request asks: prompts a model, opens the calls of its answer, waits for all of them, prompts it again;
 * until it answers without tool calls.
 *
 * Each step is in the transcript before the next one is begun, and each step may be done again: a process that is
 * killed anywhere goes on where it was. What may happen twice is a prompt whose answer was not recorded, and that alone.
 */
export class Agent {
  #trunkline;
  #model;
  #transcript;
  #note;

  /**
   * @param {object} parts
   * @param {import("@trunkline/sdk").Trunkline} parts.trunkline
   * @param {import("./model.mjs").Model} parts.model
   * @param {import("./transcript.mjs").Transcript} parts.transcript With the request.
   * @param {(what: string) => void} parts.note Told what happens.
   */
  constructor({ trunkline, model, transcript, note }) {
    this.#trunkline = trunkline;
    this.#model = model;
    this.#transcript = transcript;
    this.#note = note;
  }

  /** @returns {Promise<string>} The final answer. */
  async work() {
    const run = await this.#run();
    for (;;) {
      const { last } = this.#transcript;
      if (last?.type !== "answer") await this.#prompt();
      else if (last.toolCalls.length > 0) await this.#carryOut(run, last);
      else {
        // Again, after a crash before it was through, is fine.
        await run.end();
        return last.text;
      }
    }
  }

  /** The session's run: the one that there is, or a new one, also when a crash came before it was recorded. */
  async #run() {
    const { records } = this.#transcript;
    const recorded = records.find((record) => record.type === "run");
    if (recorded !== undefined) return this.#trunkline.runs.open(recorded.id);
    const [request] = records;
    if (request?.type !== "request") throw new Error("a session begins with its request");
    await this.#trunkline.toolsets.put(TOOLSET, tools);
    const { id: key } = request;
    const run = await this.#trunkline.runs.create({ key, toolset: TOOLSET, ttl: "30d" });
    await this.#transcript.append({ type: "run", id: run.id });
    this.#note(`run ${run.id}`);
    return run;
  }

  async #prompt() {
    const { records } = this.#transcript;
    const answers = records.filter((record) => record.type === "answer");
    const turn = answers.length + 1;
    if (turn > MAX_TURNS) throw new Error(`no answer after ${MAX_TURNS} turns`);
    this.#note(`turn ${turn}: asking ${this.#model.name}`);
    const answer = await this.#model.answer({ system: SYSTEM, messages: messagesOf(records), tools });
    const used = new Set(answers.flatMap(({ toolCalls }) => toolCalls.map(({ key }) => key)));
    const toolCalls = answer.toolCalls.map((call, index) => ({
      ...{ ...call, key: unusedKey(used, call.id, `${turn}.${index}`) },
    }));
    // Before anything is opened: whoever comes back after a crash opens the same calls under the same keys.
    await this.#transcript.append({ type: "answer", turn, ...answer, toolCalls });
    if (answer.text !== "") this.#note(`turn ${turn}: "${answer.text}"`);
  }

  /**
   * Opens an answer's calls and records how they ended: all of them at once, so that the transcript never shows half a
   * turn. Until then they are kept by Trunkline, where a restart finds them.
   *
   * @param {import("@trunkline/sdk").Run} run
   * @param {import("./transcript.mjs").AnswerRecord} answer
   */
  async #carryOut(run, { turn: number, toolCalls }) {
    const turn = run.turn(number);
    const refused = await this.#open(turn, toolCalls);
    const opened = toolCalls.length - refused.size;
    const outcomes = opened === 0 ? [] : await turn.settled();
    /** @type {Map<string, End>} */
    const ends = new Map(refused);
    for (const outcome of outcomes) ends.set(outcome.key, outcome);
    const results = toolCalls.map(({ id, key, name }) => ({ id, name, ...endOf(ends.get(key)) }));
    await this.#transcript.append({ type: "results", turn: number, results });
  }

  /**
   * Opens tool calls, again if a crash came before; notes how each ends as soon as it does.
   *
   * @param {import("@trunkline/sdk").Turn} turn
   * @param {readonly import("./transcript.mjs").ToolCall[]} toolCalls
   * @returns {Promise<Map<string, Refusal>>} Those that were not opened, by their keys.
   */
  async #open(turn, toolCalls) {
    /** @type {Map<string, Refusal>} */
    const refused = new Map();
    const refuse = (/** @type {string} */ key, /** @type {string} */ message) => {
      refused.set(key, { state: "refused", error: { message } });
      this.#note(`turn ${turn.number}: ${key} refused: ${message}`);
    };
    for (const { key, invalid } of toolCalls) if (invalid !== undefined) refuse(key, invalid);
    const calls = toolCalls
      .filter(({ invalid }) => invalid === undefined)
      .map(({ key, name, input }) => ({ key, tool: name, input }));
    this.#note(`turn ${turn.number}: opening ${calls.map(({ tool }) => tool).join(", ")}`);
    const handles = await turn.openAll(calls).catch((/** @type {unknown} */ error) => {
      if (!(error instanceof BatchError)) throw error;
      if (!error.refused.every(({ error: { reason } }) => MODELS_FAULT.test(reason))) throw error;
      for (const { key = "", error: refusal } of error.refused) refuse(key, refusal.message);
      return error.opened.filter((handle) => handle !== undefined);
    });
    for (const handle of handles) void this.#noteEnd(turn, handle);
    return refused;
  }

  /**
   * @param {import("@trunkline/sdk").Turn} turn
   * @param {import("@trunkline/sdk").CallHandle} handle
   */
  async #noteEnd(turn, handle) {
    try {
      const { tool, state, attempt } = await handle.outcome();
      this.#note(
        `turn ${turn.number}: ${handle.key} ${state}  (${tool}, call ${handle.id}, attempt ${attempt})`,
      );
    } catch {
      // The client is closed: nobody needs to know any more.
    }
  }
}

/**
 * What is recorded of a call's end.
 *
 * @param {End | undefined} end
 * @returns {import("./transcript.mjs").ToolEnd}
 */
function endOf(end) {
  if (end === undefined) throw new Error("a settled turn has an outcome for each call that was opened");
  if (end.state === "succeeded") return { state: end.state, resultJson: end.resultJson };
  if (end.state === "refused") return end;
  const { kind, message, data, outcomeUnknown } = end.error;
  return { state: end.state, error: { kind, message, data, outcomeUnknown } };
}

/**
 * The model's id of a tool call; with more to it where it is no key, or names an earlier call: models do that.
 *
 * @param {Set<string>} used Gets it.
 * @param {string} id
 * @param {string} place The call's, in the session.
 */
export function unusedKey(used, id, place) {
  const fits = id !== "" && Buffer.byteLength(id) <= MAX_KEY_BYTES && !used.has(id);
  const key = fits ? id : `${place}/${[...id].slice(0, MAX_KEY_BYTES / 8).join("")}`;
  used.add(key);
  return key;
}
