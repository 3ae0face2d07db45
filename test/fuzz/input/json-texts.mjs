import { alteredText, hostileText } from "./values.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */

const GOOD = [
  "null",
  "true",
  "0",
  '"a"',
  "[]",
  "{}",
  '{"a":1}',
  '{"a":[1,2,{"b":null}]}',
  "9007199254740993",
];

const BAD = [
  ...[
    "",
    " ",
    "nul",
    "NaN",
    "Infinity",
    "-Infinity",
    "undefined",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'a'",
    "01",
    "+1",
    "1.",
  ],
  ...[
    ".5",
    "1e",
    "0x1",
    "{a:1}",
    '{"a":1,}',
    "[1,]",
    '{"a" 1}',
    "[1 2]",
    "1 2",
    "{}{}",
    '"\n"',
    '"\\x41"',
    '"\\u12"',
  ],
  ...["\ufeff{}", "{}\0", "//\n1", "/**/1", "-", "--1", "1_000", "[,]", "{,}", '{"a"}', "{1:2}", "tru\u0435"],
];

const ODD = [
  ...["1e999", "-1e999", "1e-999", "-0", "1E400", "123456789012345678901234567890.5", `1${"0".repeat(400)}`],
  ...[
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud83d\\ude00"',
    '{"\\ud800":1}',
    '"\\u0000"',
    '{"\\u0000":1}',
    '"\\\\u0000"',
  ],
  ...['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}', '{"a":1,"a":2}'],
  ...['{"a":1,"\\u0061":2}', '{"":""}', '"\u2028\u2029"', " \t\r\n1 \t\r\n", '{"toString":1,"length":-1}'],
];

const SCHEMAS = [
  ...["true", "false", "{}", '{"type":"object"}', '{"type":"object","properties":{"a":{"type":"integer"}}}'],
  ...[
    '{"type":"string","pattern":"^(a+)+$"}',
    '{"pattern":"("}',
    '{"pattern":"\\\\p{L}+"}',
    '{"pattern":"(?=a)b"}',
  ],
  ...['{"$ref":"#"}', '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}'],
  ...['{"$ref":"https://example.com/s"}', '{"$ref":"#/nowhere"}', '{"$ref":""}', '{"$id":"x","$anchor":"y"}'],
  ...[
    '{"multipleOf":0}',
    '{"multipleOf":1e-300}',
    '{"minimum":1e999}',
    '{"maxLength":-1}',
    '{"minItems":1.5}',
  ],
  ...[
    '{"enum":[]}',
    '{"enum":[1,1]}',
    '{"const":{"__proto__":1}}',
    '{"required":["a","a"]}',
    '{"required":"a"}',
  ],
  ...[
    '{"properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}',
    '{"type":["string","string"]}',
  ],
  ...[
    '{"not":{"not":{"not":{}}}}',
    '{"allOf":[]}',
    '{"oneOf":[true,true]}',
    '{"if":false,"then":false,"else":true}',
  ],
  ...['{"type":"array","items":{"type":"number"},"uniqueItems":true,"contains":true,"minContains":0}'],
  ...[
    '{"patternProperties":{"^a*$":{"type":"null"}},"additionalProperties":false}',
    '{"type":"nothing"}',
    "[]",
    "1",
  ],
  ...[
    '{"unevaluatedProperties":false}',
    '{"dependentRequired":{"a":["b"]}}',
    '{"format":"email"}',
    '{"default":1e999}',
  ],
];

/** @param {Random} random */
export function goodJson(random) {
  return random.pick(GOOD);
}

/** @param {Random} random */
export function goodSchema(random) {
  return random.chance(0.3) ? "" : random.pick(SCHEMAS.slice(0, 5));
}

/**
 * A JSON text, or nearly one, as `input_json` and its like have it.
 *
 * @param {Random} random
 */
export function jsonText(random) {
  const roll = random.next();
  if (roll < 0.5) return random.pick(GOOD);
  if (roll < 0.65) return random.pick(ODD);
  if (roll < 0.8) return random.pick(BAD);
  if (roll < 0.88) return nested(random);
  if (roll < 0.92) return alteredText(random, random.pick([...GOOD, ...ODD]));
  if (roll < 0.995) return JSON.stringify({ [hostileText(random)]: hostileText(random) });
  return JSON.stringify("x".repeat(random.pick([65_000, 65_537, 262_144, 1_048_574, 1_048_575])));
}

/**
 * A tool's schema, or nearly one.
 *
 * @param {Random} random
 */
export function schemaText(random) {
  const roll = random.next();
  if (roll < 0.75) return random.pick(SCHEMAS);
  if (roll < 0.85) return alteredText(random, random.pick(SCHEMAS));
  if (roll < 0.93) {
    const depth = random.pick([3, 31, 32, 33, 200, 3_000]);
    return `${'{"not":'.repeat(depth)}true${"}".repeat(depth)}`;
  }
  return jsonText(random);
}

/** @param {Random} random */
function nested(random) {
  const depth = random.pick([30, 255, 256, 257, 258, 1_000, 5_000, 100_000]);
  const [open, close] = random.pick([
    ["[", "]"],
    ['{"a":', "}"],
    ['[{"":', "}]"],
  ]);
  // Sometimes nothing closes what was opened.
  return `${open.repeat(depth)}1${random.chance(0.9) ? close.repeat(depth) : ""}`;
}
