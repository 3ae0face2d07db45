import { ScalarType } from "@bufbuild/protobuf";
import { slotOf } from "./known.mjs";
import { anyBytes, brokenText, floatNumber, hostileText, wholeNumber } from "./values.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** @typedef {import("@bufbuild/protobuf").DescField} DescField */
/** @typedef {import("@bufbuild/protobuf").DescMessage} DescMessage */
/** @typedef {import("./known.mjs").Known} Known */
/**
 * A value of one field, which may be none that its type allows: bytes stand for a text that is no UTF-8.
 *
 * @typedef {bigint | number | boolean | string | Buffer | Filled} Value
 */
/** One field with its value; a list's field comes once for each item. @typedef {{ field: DescField, value: Value, key?: Value }} Part */
/** A message before it is written in one of its forms. @typedef {{ desc: DescMessage, parts: Part[] }} Filled */

/** Lists are this long now and then: what the limits allow, and one more. */
const LONG = [100, 1_000, 1_001, 10_001];
const MOST_PARTS = 12_000;

/** Of messages without anything hostile in them, how many there are of each field that is seldom useful. */
const SELDOM = {
  drain: 0.05,
  end_runs: 0.05,
  turn: 0.2,
  policy: 0.1,
  ttl: 0.1,
  toolset: 0.2,
  problem: 0,
  project: 0.02,
};
/** What nothing comes of without. */
const NEEDED = new Set([
  ...[
    "session_id",
    "nonce",
    "tools",
    "tool",
    "spec",
    "call",
    "call_id",
    "claim_id",
    "key_id",
    "token_id",
    "settlement",
  ],
  ...[
    "run_id",
    "deferral",
    "failure",
    "outcome",
    "result_json",
    "id",
    "name",
    "input_json",
    "token",
    "slots",
  ],
]);
/** What makes a request wait. */
const WAITS = new Set(["wait", "timeout"]);
/** Whole numbers that make sense, for fields that have others than small ones. */
const SENSIBLE = {
  page_size: [0, 50],
  slots: [1, 20],
  grant: [1, 10],
  number: [0, 0],
  priority: [-3, 3],
  version: [0, 2],
};

/** Fills messages of any type. */
export class Filler {
  #random;
  #known;
  #hostility;
  #parts = 0;

  /**
   * @param {Random} random
   * @param {Known} known
   * @param {number} [hostility] How likely each value is to be one that a server may choke on.
   */
  constructor(random, known, hostility = random.pick([0, 0, 0.03, 0.1, 0.4])) {
    this.#random = random;
    this.#known = known;
    this.#hostility = hostility;
  }

  /**
   * A message whose fields have values that the server may take, or may not.
   *
   * @param {DescMessage} desc
   * @param {readonly string[]} [wanted] Fields that it has for sure.
   * @param {readonly string[]} [unwanted] Fields that it has seldom.
   * @returns {Filled}
   */
  message(desc, wanted = [], unwanted = []) {
    if (desc.typeName === "google.protobuf.Duration") return this.#duration(desc);
    /** @type {Part[]} */
    const parts = [];
    const oneofs = new Map(desc.oneofs.map((oneof) => [oneof, this.#random.pick(oneof.fields)]));
    for (const field of desc.fields) {
      const isChosen = field.oneof === undefined || oneofs.get(field.oneof) === field;
      const chance =
        !isChosen || unwanted.includes(field.name) ? this.#hostility / 10 : this.#chanceOf(field);
      if (!wanted.includes(field.name) && !this.#random.chance(chance)) continue;
      for (let left = this.#count(field); left > 0 && this.#parts < MOST_PARTS; left--)
        parts.push(this.#part(field, left));
    }
    return { desc, parts };
  }

  /** @param {DescField} field */
  #chanceOf(field) {
    if (NEEDED.has(field.name)) return 1 - this.#hostility / 4;
    const seldom = /** @type {Record<string, number | undefined>} */ (SELDOM)[field.name];
    return seldom === undefined ? 0.85 : Math.max(seldom, this.#hostility);
  }

  /** @param {DescField} field */
  #count(field) {
    const random = this.#random;
    const isHostile = random.chance(this.#hostility / 4);
    if (field.fieldKind !== "list" && field.fieldKind !== "map") return isHostile ? 2 : 1;
    return isHostile ? random.pick([0, ...LONG]) : random.int(1, 3);
  }

  /**
   * @param {DescField} field
   * @param {number} number Names it among those of a map.
   * @returns {Part}
   */
  #part(field, number) {
    this.#parts++;
    if (field.fieldKind !== "map") return { field, value: this.#value(field) };
    const isHostile = this.#random.chance(this.#hostility);
    const key = isHostile ? hostileText(this.#random) : `label-${number}`;
    return { field, key, value: this.#value(field) };
  }

  /**
   * @param {DescField} field
   * @returns {Value}
   */
  #value(field) {
    const random = this.#random;
    const isHostile = random.chance(this.#hostility);
    if (field.message !== undefined) {
      const isShort = WAITS.has(field.name) && random.chance(0.9);
      return isShort ? this.#short(field.message) : this.message(field.message);
    }
    if (field.enum !== undefined)
      return isHostile ? wholeNumber(random) : BigInt(random.pick(field.enum.values).number);
    switch (field.scalar) {
      case ScalarType.STRING:
        if (isHostile && random.chance(0.02)) return brokenText(random);
        return this.#known.text(random, slotOf(field), this.#hostility);
      case ScalarType.BOOL:
        return random.chance(0.5);
      case ScalarType.BYTES:
        return anyBytes(random, 64);
      case ScalarType.DOUBLE:
      case ScalarType.FLOAT:
        return isHostile ? floatNumber(random) : 1 + random.int(0, 4) / 2;
      default:
        return isHostile ? wholeNumber(random) : this.#sensible(field);
    }
  }

  /** @param {DescField} field */
  #sensible({ name }) {
    const [least = 0, most = 3] = /** @type {Record<string, number[] | undefined>} */ (SENSIBLE)[name] ?? [];
    return BigInt(this.#random.int(least, most));
  }

  /** @param {DescMessage} desc */
  #duration(desc) {
    const random = this.#random;
    const isGood = !random.chance(this.#hostility);
    const seconds = isGood ? BigInt(random.int(1, 600)) : wholeNumber(random);
    const nanos = isGood ? BigInt(random.pick([0, 0, 1_000_000, 999_000_000])) : wholeNumber(random);
    return durationOf(desc, seconds, nanos);
  }

  /** @param {DescMessage} desc */
  #short(desc) {
    return durationOf(desc, 0n, BigInt(this.#random.int(1, 100)) * 1_000_000n);
  }
}

/**
 * @param {DescMessage} desc
 * @param {bigint} seconds
 * @param {bigint} nanos
 * @returns {Filled}
 */
function durationOf(desc, seconds, nanos) {
  const values = { seconds, nanos };
  return {
    desc,
    parts: desc.fields.map((field) => ({
      field,
      value: field.name === "nanos" ? values.nanos : values.seconds,
    })),
  };
}
