import { anyBytes, hostileText, wholeNumber } from "./values.mjs";
import { flipped } from "./binary.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** @typedef {import("@bufbuild/protobuf").DescField} DescField */
/** @typedef {import("./message.mjs").Filled} Filled */
/** @typedef {import("./message.mjs").Value} Value */

/** In place of a value that fits, of any type. */
const WRONG = [
  ...[
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    '""',
    '"a"',
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "1e999",
    "-1e999",
    "1e400",
    "NaN",
  ],
  ...[
    "Infinity",
    "99999999999999999999",
    '"99999999999999999999"',
    '"NaN"',
    '"1e5"',
    '"0x1"',
    '" 1"',
    "-0",
    "1e-999",
  ],
  ...[
    '"\\ud800"',
    '"\\u0000"',
    '{"__proto__":{}}',
    '"1.5s"',
    '"-1s"',
    '"9999999999999s"',
    '"s"',
    '"1.0000000001s"',
    "[1,2",
  ],
  ...[
    '{"@type":"type.googleapis.com/google.protobuf.Empty"}',
    '"2024-13-45T99:99:99Z"',
    '"CALL_STATE_QUEUED"',
    '"-0"',
  ],
];

/** Among the members of an object. */
const STRAY_MEMBERS = [
  ...[
    '"__proto__":{"admin":true}',
    '"constructor":{"prototype":{"admin":true}}',
    '"toString":1',
    '"":1',
    '"$typeName":"x"',
  ],
  ...[
    '"$unknown":[1]',
    '"\\ud800":1',
    '"\\u0000":null',
    '"hasOwnProperty":null',
    '"@type":"x"',
    '"unknown":{"a":[1,{"b":2}]}',
  ],
];

/**
 * The message as JSON text, with now and then a value of another type, a name twice, or one that does not belong there.
 *
 * @param {Random} random
 * @param {Filled} filled
 * @param {number} [hostility] How likely each value is to be a wrong one.
 * @returns {string}
 */
export function toJsonText(random, { desc, parts }, hostility = 0.04) {
  if (desc.typeName === "google.protobuf.Duration") return durationText(parts);
  /** @type {Map<DescField, string[]>} */
  const texts = new Map();
  for (const { field, value, key } of parts) {
    const text = random.chance(hostility) ? random.pick(WRONG) : valueText(random, field, value, hostility);
    const item = key === undefined ? text : `${JSON.stringify(String(key))}:${text}`;
    const items = texts.get(field);
    if (items === undefined) texts.set(field, [item]);
    else items.push(item);
  }
  const members = [...texts].flatMap(([field, items]) => membersOf(random, field, items));
  if (random.chance(hostility)) members.push(random.pick(STRAY_MEMBERS));
  return `{${members.join(",")}}`;
}

/**
 * @param {Random} random
 * @param {DescField} field
 * @param {string[]} items
 */
function membersOf(random, field, items) {
  const name = JSON.stringify(random.chance(0.9) ? field.jsonName : field.name);
  if (field.fieldKind === "list") return [`${name}:[${items.join(",")}]`];
  if (field.fieldKind === "map") return [`${name}:{${items.join(",")}}`];
  return items.map((item) => `${name}:${item}`);
}

/**
 * @param {Random} random
 * @param {DescField} field
 * @param {Value} value
 * @param {number} hostility
 * @returns {string}
 */
function valueText(random, field, value, hostility) {
  if (typeof value === "bigint") {
    const name = field.enum?.values.find(({ number }) => BigInt(number) === value)?.name;
    if (name !== undefined && random.chance(0.7)) return JSON.stringify(name);
    return random.chance(0.2) && field.enum === undefined ? `"${value}"` : String(value);
  }
  if (Buffer.isBuffer(value)) return JSON.stringify(value.toString("latin1"));
  if (typeof value === "number")
    return Number.isFinite(value) ? String(value) : JSON.stringify(String(value));
  if (typeof value === "object") return toJsonText(random, value, hostility);
  return JSON.stringify(value);
}

/** @param {Filled["parts"]} parts */
function durationText(parts) {
  const [seconds = "0", nanos = "0"] = parts.map(({ value }) => String(value));
  return nanos === "0" ? `"${seconds}s"` : `"${seconds}.${nanos.padStart(9, "0")}s"`;
}

/**
 * The text's bytes with something wrong in them.
 *
 * @param {Random} random
 * @param {string} text
 * @returns {Buffer}
 */
export function mutatedJson(random, text) {
  const at = random.int(0, text.length);
  switch (random.int(0, 8)) {
    case 0:
      return flipped(random, Buffer.from(text));
    case 1:
      return Buffer.from(text.slice(0, at));
    case 2:
      return Buffer.from(`\ufeff${text}`);
    case 3:
      return Buffer.concat([
        Buffer.from(text.slice(0, at)),
        anyBytes(random, 4),
        Buffer.from(text.slice(at)),
      ]);
    case 4:
      return Buffer.from(text, "utf16le");
    case 5:
      return Buffer.from(`${text}${random.pick([",", "}", "\0", "null", text])}`);
    case 6:
      return Buffer.from(deep(random, text));
    case 7:
      return Buffer.from(text.replace(/\d+/, () => String(wholeNumber(random))));
    default:
      return Buffer.from(JSON.stringify(hostileText(random)));
  }
}

/**
 * @param {Random} random
 * @param {string} text
 */
function deep(random, text) {
  const depth = random.pick([100, 1_000, 10_000, 200_000]);
  const member = random.pick(["runs", "opens", "watch", "items", "answers", "accepted", "calls", "x"]);
  if (random.chance(0.3)) return `{"${member}":[${"{},".repeat(5 * depth)}{}]}`;
  const [open, close] = random.pick([
    ["[", "]"],
    ['{"spec":', "}"],
    ['{"a":[', "]}"],
  ]);
  const nest = `${open.repeat(depth)}null${close.repeat(depth)}`;
  return random.chance(0.5) ? nest : text.replace(/\}$/, `,"unknown":${nest}}`);
}
