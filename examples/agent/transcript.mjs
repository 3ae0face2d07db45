import { randomUUID } from "node:crypto";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";

/**
 * A tool call as the model asked for it.
 *
 * @typedef {object} ToolCall
 * @property {string} id The model's own; results refer to it.
 * @property {string} key Under which it is opened: the id, or one made of it where a model uses an id twice.
 * @property {string} name
 * @property {unknown} input
 * @property {string} [invalid] What is wrong with it, if the model did not even write JSON, or named no tool.
 */

/**
 * How a tool call ended: with a result, as the tool wrote it; with an error; or refused, so that no call was opened.
 *
 * @typedef {object} ToolSuccess
 * @property {"succeeded"} state
 * @property {string} resultJson
 *
 * @typedef {object} ToolFailure
 * @property {"failed" | "canceled"} state
 * @property {Pick<import("@trunkline/sdk").Failure, "kind" | "message" | "data" | "outcomeUnknown">} error
 *
 * @typedef {object} ToolRefusal
 * @property {"refused"} state
 * @property {{ message: string }} error
 *
 * @typedef {ToolSuccess | ToolFailure | ToolRefusal} ToolEnd
 * @typedef {{ id: string, name: string } & ToolEnd} ToolResult
 */

/**
 * What a session is made of, in this order: a request, its run, then answers, each followed by all of its results,
 * until an answer calls no tool.
 *
 * @typedef {{ type: "request", id: string, text: string }} RequestRecord
 * @typedef {{ type: "run", id: string }} RunRecord
 * @typedef {{ type: "answer", turn: number, text: string, toolCalls: ToolCall[], native?: unknown }} AnswerRecord
 * @typedef {{ type: "results", turn: number, results: ToolResult[] }} ResultsRecord
 * @typedef {RequestRecord | RunRecord | AnswerRecord | ResultsRecord} Entry
 * @typedef {Entry & { n: number, engine: string }} Stored
 */

/** Another engine works on the session. */
export class SessionTakenError extends Error {}

/**
 * A session on disk: a file to which lines of JSON are appended, each on disk before anything is done about it. It may
 * end in the middle of a line, when the machine died; such a line counts as never written, unless nothing but its end
 * is missing.
 */
export class Transcript {
  /** Names this engine in the records that it appends. */
  engine = randomUUID();
  #file;
  /** @type {Stored[]} */
  #records = [];
  #bytesRead = 0;
  #endsInLine = false;

  /** @param {import("node:fs/promises").FileHandle} file */
  constructor(file) {
    this.#file = file;
  }

  /**
   * Opens the session's file, or begins one.
   *
   * @param {string} folder
   * @param {string} session A name for a file.
   */
  static async open(folder, session) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const transcript = new Transcript(await open(fileOf(folder, session), "a+", 0o600));
    // Who wrote it may have been killed before it was on disk.
    await transcript.#file.sync();
    await transcript.#read();
    // The file's name, too, is to survive a power cut.
    const parent = await open(folder);
    await parent.sync();
    await parent.close();
    return transcript;
  }

  /** Everything so far. */
  get records() {
    return this.#records;
  }

  /** @returns {Stored | undefined} */
  get last() {
    return this.#records.at(-1);
  }

  /**
   * Resolves with the record once it is on disk, read back from there: what a restart will find.
   *
   * @template {Entry} T
   * @param {T} entry
   * @returns {Promise<T & Stored>}
   */
  async append(entry) {
    const n = this.#records.length;
    const line = JSON.stringify({ n, engine: this.engine, ...entry });
    await this.#file.appendFile(`${this.#endsInLine ? "\n" : ""}${line}\n`);
    await this.#file.sync();
    await this.#read();
    const stored = this.#records[n];
    // Of two that append at once, the first has the number.
    if (stored?.engine !== this.engine) {
      throw new SessionTakenError(`another engine works on this session: record ${n} is its`);
    }
    return /** @type {T & Stored} */ (stored);
  }

  async close() {
    await this.#file.close();
  }

  /** Reads what was appended, by whomever. */
  async #read() {
    const { size } = await this.#file.stat();
    const bytes = Buffer.alloc(size - this.#bytesRead);
    await this.#file.read(bytes, 0, bytes.length, this.#bytesRead);
    const lines = bytes.lastIndexOf("\n") + 1;
    // A whole record without its line's end is there for whoever appends behind it.
    const end = parsed(bytes.toString("utf8", lines)) === undefined ? lines : bytes.length;
    this.#bytesRead += end;
    this.#endsInLine = lines < bytes.length;
    this.#records.push(...recordsOf(bytes.toString("utf8", 0, end), this.#records.length));
  }
}

/**
 * The records of a file's whole lines. A line that a crash has cut is none, and of two with one number the first counts.
 *
 * @param {string} text
 * @param {number} [first] The number of the first one that is wanted.
 * @returns {Stored[]}
 */
export function recordsOf(text, first = 0) {
  /** @type {Stored[]} */
  const records = [];
  for (const line of text.split("\n")) {
    const record = parsed(line);
    if (record === undefined || record.n < first + records.length) continue;
    if (record.n > first + records.length) throw new Error(`record ${first + records.length} is missing`);
    records.push(record);
  }
  return records;
}

/** @type {(line: string) => Stored | undefined} */
function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** @type {(folder: string, session: string) => string} */
export function fileOf(folder, session) {
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(session)) {
    throw new Error(`session "${session}"; allowed are 1 to 100 of A-Z a-z 0-9 _ -`);
  }
  return join(folder, `${session}.jsonl`);
}
