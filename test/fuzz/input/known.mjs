import { createHash } from "node:crypto";
import { alteredText, hostileText } from "./values.mjs";
import { goodJson, goodSchema, jsonText, schemaText } from "./json-texts.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** @typedef {import("@bufbuild/protobuf").DescField} DescField */
/** @typedef {import("@bufbuild/protobuf").DescMessage} DescMessage */
/** What a text field is about. @typedef {"run" | "call" | "claim" | "token" | "session" | "nonce" | "page" | "cursor" | "toolset" | "tool" | "key" | "keyId" | "tokenId" | "project" | "namespace" | "json" | "schema" | "trace" | "secret" | "other"} Slot */

/** How often a text that the server knows is taken; where nothing is said, mostly. @type {Partial<Record<Slot, number>>} */
const KNOWN_RATE = {
  tool: 0.1,
  key: 0.3,
  page: 0.5,
  cursor: 0.5,
  project: 0.1,
  toolset: 0.2,
  namespace: 0.2,
  session: 0.3,
};

/** Of each slot; the newest are kept. */
const KEPT = 64;

/** @type {Readonly<Record<string, Slot>>} */
const SLOT_OF_TYPE = {
  "Run.id": "run",
  "Call.id": "call",
  "Toolset.id": "toolset",
  "PutToolsetRequest.id": "toolset",
  "GetToolsetRequest.id": "toolset",
  "DeleteToolsetRequest.id": "toolset",
  "Tool.name": "tool",
  "Key.id": "keyId",
  "Project.name": "project",
  "CreateProjectRequest.name": "project",
  // A credential, and none that a request has in its body.
  "CreateTokenResponse.token": "other",
  "CreateKeyResponse.secret": "other",
  "RotateKeyResponse.secret": "other",
};

/** @type {Readonly<Record<string, Slot>>} */
const SLOT_OF_FIELD = {
  run_id: "run",
  call_id: "call",
  watch: "call",
  claim_id: "claim",
  accepted: "claim",
  releases: "claim",
  claims: "claim",
  lost: "claim",
  confirmed: "claim",
  token: "token",
  session_id: "session",
  nonce: "nonce",
  page_token: "page",
  next_page_token: "page",
  cursor: "cursor",
  toolset: "toolset",
  tool: "tool",
  tools: "tool",
  key: "key",
  key_id: "keyId",
  token_id: "tokenId",
  project: "project",
  namespace: "namespace",
  traceparent: "trace",
  secret: "secret",
};

/**
 * What a text field is about.
 *
 * @param {DescField} field
 * @returns {Slot}
 */
export function slotOf({ name, parent }) {
  const slot = SLOT_OF_TYPE[`${parent.name}.${name}`] ?? SLOT_OF_FIELD[name];
  if (slot !== undefined) return slot;
  if (name.endsWith("schema_json")) return "schema";
  return name.endsWith("_json") ? "json" : "other";
}

/** What the answers have named so far: requests that name it again reach deeper than those that make names up. */
export class Known {
  /** @type {Map<Slot, string[]>} */
  #values = new Map();
  #isOwn;

  /** @param {(text: string) => boolean} isOwn What the fuzz run itself needs, and no request is to name. */
  constructor(isOwn) {
    this.#isOwn = isOwn;
  }

  /**
   * @param {Slot} slot
   * @param {string} text
   */
  add(slot, text) {
    if (text === "" || this.#isOwn(text)) return;
    const values = this.#values.get(slot) ?? [];
    this.#values.set(slot, values);
    if (values.includes(text)) return;
    values.push(text);
    if (values.length > KEPT) values.shift();
  }

  /**
   * Takes over what a message names.
   *
   * @param {DescMessage} desc
   * @param {Record<string, any>} message
   */
  learn(desc, message) {
    for (const field of desc.fields) {
      const value =
        field.oneof === undefined
          ? message[field.localName]
          : message[field.oneof.localName]?.case === field.localName
            ? message[field.oneof.localName].value
            : undefined;
      for (const each of Array.isArray(value) ? value : [value]) {
        if (typeof each === "string") this.add(slotOf(field), each);
        else if (field.message !== undefined && each !== undefined) this.learn(field.message, each);
      }
    }
  }

  /**
   * A text for a field: one that the server knows, or could, or with that likelihood something else.
   *
   * @param {Random} random
   * @param {Slot} slot
   * @param {number} hostility
   * @returns {string}
   */
  text(random, slot, hostility) {
    const isHostile = random.chance(hostility);
    if (slot === "json") return isHostile ? jsonText(random) : goodJson(random);
    if (slot === "schema") return isHostile ? schemaText(random) : goodSchema(random);
    const values = this.#values.get(slot) ?? [];
    if (isHostile && (values.length === 0 || random.chance(0.4))) return hostileText(random);
    if (isHostile) {
      const value = random.pick(values);
      return slot === "page" || slot === "cursor" ? alteredPage(random, value) : alteredText(random, value);
    }
    return values.length > 0 && random.chance(KNOWN_RATE[slot] ?? 0.8)
      ? random.pick(values)
      : plausible(random, slot);
  }
}

/** What a page's token may be made to begin after. */
const CURSORS = [
  ...[
    "null",
    "0",
    "-1",
    "1e999",
    "1e300",
    "0.5",
    "9007199254740993",
    "99999999999999999999",
    '""',
    '"a\\u0000b"',
  ],
  ...[
    '"\\ud800"',
    "[]",
    "{}",
    "[[]]",
    '["a","b","c"]',
    "[null,null]",
    "[1e999,1e999]",
    '[1,"a\\u0000"]',
    "true",
  ],
  ...[
    '["9999-99-99","x"]',
    '["infinity",1]',
    '["2024-01-01T00:00:00Z",1]',
    '{"__proto__":1}',
    '"nan"',
    '["-infinity",0]',
  ],
];

/**
 * The token of a page of the same list, that begins elsewhere.
 *
 * @param {Random} random
 * @param {string} token
 */
function alteredPage(random, token) {
  if (random.chance(0.3)) return alteredText(random, token);
  try {
    const [list, cursor] = JSON.parse(Buffer.from(token, "base64url").toString());
    return Buffer.from(`[${JSON.stringify(list)},${alteredCursor(random, cursor)}]`).toString("base64url");
  } catch {
    return alteredText(random, token);
  }
}

/**
 * @param {Random} random
 * @param {unknown} cursor
 */
function alteredCursor(random, cursor) {
  if (random.chance(0.3)) return random.pick(CURSORS);
  if (!Array.isArray(cursor)) return alteredText(random, JSON.stringify(cursor) ?? "null");
  const at = random.int(0, Math.max(0, cursor.length - 1));
  const texts = cursor.map((each) => JSON.stringify(each));
  texts[at] = random.pick(CURSORS);
  return `[${texts.join(",")}]`;
}

/**
 * @param {Random} random
 * @param {Slot} slot
 * @returns {string}
 */
function plausible(random, slot) {
  const hex = (/** @type {number} */ length) =>
    createHash("sha256").update(String(random.next())).digest("hex").slice(0, length);
  const uuid = () => hex(32).replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, "$1-$2-4$3-a$4-$5");
  switch (slot) {
    case "run":
      return random.chance(0.5) ? uuid() : hex(32);
    case "call":
      return `${uuid()}/${random.int(1, 9)}`;
    case "token":
      return `${uuid()}/${random.int(1, 9)}.${random.int(1, 3)}.${hex(43)}`;
    case "claim":
      return random.chance(0.5) ? uuid() : hex(22);
    case "session":
      return random.chance(0.7) ? `session-${random.int(0, 9)}` : uuid();
    case "nonce":
      return random.chance(0.9) ? "the-nonce-of-all-of-them" : hex(22);
    case "tool":
      return `tool-${random.int(0, 9)}`;
    case "toolset":
      return random.chance(0.6) ? "" : `toolset-${random.int(0, 4)}`;
    case "key":
      return random.chance(0.3) ? "" : `key-${random.int(0, 99)}`;
    case "namespace":
      return random.pick(["", "end-user", "another-user"]);
    case "project":
      return random.chance(0.9) ? "" : `project-${random.int(0, 9)}`;
    case "trace":
      return random.chance(0.5) ? "" : `00-${hex(32)}-${hex(16)}-01`;
    case "secret":
      return random.chance(0.5) ? "" : hex(43);
    case "keyId":
      return hex(24);
    case "tokenId":
      return uuid();
    case "page":
    case "cursor":
      return random.chance(0.6) ? "" : Buffer.from(hex(16)).toString("base64url");
    default:
      return `text-${random.int(0, 99)}`;
  }
}
