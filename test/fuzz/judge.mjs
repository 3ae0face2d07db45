/** @typedef {import("./wire/answer.mjs").Answer} Answer */
/** What was wrong with one answer. @typedef {{ input: number, kind: string, code: string, text: string }} Finding */

/** Of one sort of finding, so many are kept. */
const KEPT = 5;

/** What the server says where the fault is in what it was sent, by the words of its protocol. */
const OF_THE_CLIENT =
  /^protocol error: |^received compressed envelope, but do not know how to decompress$|^parse binary: |^decompression failed$/;

/** Codes that no input may ever be answered with. */
const WRONG = new Set(["hang", "unknown", "data_loss", "no status", "no end", "cut by the server"]);

/** Counts answers, and keeps those that are no answers. */
export class Judge {
  /** By kind. @type {Map<string, number>} */
  inputs = new Map();
  /** By kind, then by code. @type {Map<string, Map<string, number>>} */
  codes = new Map();
  /** By kind, code and what was said of it: how deep the inputs reach. @type {Map<string, number>} */
  words = new Map();
  /** @type {Finding[]} */
  findings = [];
  /** How many there were of each sort. @type {Map<string, number>} */
  sorts = new Map();

  /** All inputs so far. */
  get total() {
    return [...this.inputs.values()].reduce((sum, count) => sum + count, 0);
  }

  /**
   * @param {number} input
   * @param {string} kind
   * @param {Answer} answer
   * @returns {Finding | undefined}
   */
  take(input, kind, { code, text = "", inputs = 1 }) {
    count(this.inputs, kind, inputs);
    const codes = this.codes.get(kind) ?? new Map();
    this.codes.set(kind, codes);
    count(codes, code, 1);
    // Numbers and what was quoted aside, the same words are the same fault.
    const said = text.replace(/\d+/g, "#").replace(/".*"/gs, '"…"').slice(0, 80);
    count(this.words, `${kind}: ${code}: ${said}`, 1);
    if (!isWrong(code, text)) return undefined;
    const finding = { input, kind, code, text };
    const sort = code === "hang" ? `${kind}: hang` : `${kind}: ${code}: ${said}`;
    count(this.sorts, sort, 1);
    if ((this.sorts.get(sort) ?? 0) <= KEPT) this.findings.push(finding);
    return finding;
  }
}

/**
 * @param {string} code
 * @param {string} text
 */
function isWrong(code, text) {
  if (WRONG.has(code)) return true;
  if (code === "internal") return !OF_THE_CLIENT.test(text);
  // A stream in both directions is answered so over HTTP/1.1.
  return /^http 5/.test(code) && code !== "http 505";
}

/**
 * @param {Map<string, number>} counts
 * @param {string} name
 * @param {number} by
 */
function count(counts, name, by) {
  counts.set(name, (counts.get(name) ?? 0) + by);
}
