import { TrunklineError } from "./errors.js";
import { LIMITS } from "./limits.js";
import { utf8Bytes } from "./text.js";

/** JSON text to be passed through untouched; made by {@link rawJson}. */
export class RawJson {
  /** The text, as it was given. */
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Marks a JSON text to be passed through untouched, digit for digit, where a value is expected: an
 * input, a result, failure data, or any place inside one.
 *
 * @throws TrunklineError INVALID_JSON when the text is not JSON or has half of a surrogate pair
 */
export function rawJson(text: string): RawJson {
  // What comes from JavaScript may be anything.
  const given: unknown = text;
  if (typeof given !== "string") {
    throw new TrunklineError("INVALID_JSON", `rawJson: allowed is JSON text, not ${typeof given}`);
  }
  if (!given.isWellFormed()) {
    throw new TrunklineError("INVALID_JSON", "rawJson: the text has half of a surrogate pair");
  }
  try {
    JSON.parse(given);
  } catch (error) {
    throw new TrunklineError("INVALID_JSON", "rawJson: the text is not JSON", { cause: error });
  }
  return new RawJson(given);
}

/**
 * Above this multiple of the limit writing stops: shared parts can make a small value's text endless,
 * and the exact size of what is this far off helps nobody.
 */
const GIVE_UP_FACTOR = 16;

const MAX_PATH_CHARACTERS = 200;
const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/**
 * Writes a value as JSON text and, unlike `JSON.stringify`, refuses whatever JSON cannot carry instead
 * of dropping or bending it: undefined, functions, symbols, BigInt, NaN, cycles, lone surrogates, maps,
 * promises. `toJSON` is called as usual; {@link rawJson} passes through.
 *
 * @param root what the value is, for the message: `result.items[3].price is NaN, which JSON cannot carry`
 * @throws TrunklineError INVALID_JSON; LIMIT_EXCEEDED with `limit`, `size` and `max` in its metadata
 */
export function toJson(value: unknown, root: string, maxBytes: number = LIMITS.payloadBytes): string {
  const writer = new JsonWriter(root, maxBytes);
  let text: string;
  try {
    text = writer.write(value);
  } catch (error) {
    if (error instanceof Refusal) throw writer.refused(error);
    // A getter, a proxy or a toJSON threw.
    throw writer.unreadable(error);
  }
  // A UTF-16 unit takes at most three bytes, so most texts need no counting.
  if (text.length * 3 <= maxBytes) return text;
  const size = utf8Bytes(text);
  if (size > maxBytes) throw tooLarge(root, String(size), maxBytes);
  return text;
}

/** Whether an error of {@link toJson} is about size, not about content. */
export function isTooLarge(error: unknown): boolean {
  return (
    error instanceof TrunklineError &&
    error.reason === "LIMIT_EXCEEDED" &&
    error.metadata["limit"] === "bytes"
  );
}

/** Names what a thrown value is, in one line, without ever throwing itself. */
export function nameThrown(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return `${thrown} (a string was thrown, not an Error)`;
    if (thrown instanceof Error) return `${thrown.name}: ${thrown.message}`;
    if (typeof thrown === "object" && thrown !== null) return "an object was thrown that is not an Error";
    return `${String(thrown)} was thrown, not an Error`;
  } catch {
    return "something was thrown that cannot be read";
  }
}

function tooLarge(root: string, size: string, maxBytes: number): TrunklineError {
  return new TrunklineError(
    "LIMIT_EXCEEDED",
    `${root} has ${size} bytes; allowed are at most ${maxBytes} bytes of UTF-8`,
    { metadata: { field: root, limit: "bytes", size, max: String(maxBytes) } },
  );
}

/** Ends the walk; becomes a {@link TrunklineError} with the place outside of it. */
class Refusal extends Error {
  readonly kind: "content" | "depth" | "bytes";

  constructor(kind: "content" | "depth" | "bytes", message: string) {
    super(message);
    this.kind = kind;
  }
}

/** What an object says that it is, whichever realm it comes from. */
function tagOf(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Nearly all of them, and asking is slower.
  if (prototype === Object.prototype || prototype === Array.prototype) return "Object";
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

const BOXES: ReadonlySet<string> = new Set(["Number", "String", "Boolean", "Symbol", "BigInt"]);

/** What is in a boxed primitive; anything else as it is. */
function unboxed(value: object): unknown {
  if (!BOXES.has(tagOf(value))) return value;
  const inner: unknown = value.valueOf();
  // What only bears the name of a box would be opened for ever.
  return typeof inner === "object" ? value : inner;
}

const LOSSY: ReadonlyMap<string, string> = new Map([
  ["Promise", "a Promise (is an await missing?)"],
  ["Map", "a Map (Object.fromEntries makes an object of it)"],
  ["Set", "a Set (Array.from makes an array of it)"],
  ["Error", "an Error"],
  ["RegExp", "a RegExp"],
  ["ArrayBuffer", "binary data"],
  ["SharedArrayBuffer", "binary data"],
  ["WeakMap", "a weak collection"],
  ["WeakSet", "a weak collection"],
]);

/** What an object is when JSON would silently lose its content; undefined when it is fine. */
function lossyObject(value: object): string | undefined {
  if (ArrayBuffer.isView(value)) return "binary data";
  return LOSSY.get(value instanceof Error ? "Error" : tagOf(value));
}

/**
 * What an object without fields is when its content is reached in another way, so that JSON would make `{}` of it: a
 * stream, a generator, a `Response`, an instance of a class with accessors. Undefined when it is just empty.
 */
function hollowObject(value: object): string | undefined {
  if (Symbol.iterator in value || Symbol.asyncIterator in value) {
    return "an iterator or a stream (gather its items in an array)";
  }
  let prototype: unknown = Object.getPrototypeOf(value);
  while (typeof prototype === "object" && prototype !== null && prototype !== Object.prototype) {
    for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      // Plain objects of another realm have this one.
      if ("get" in property && name !== "__proto__") {
        return "an object without fields of its own (give it a toJSON, or return what is wanted of it)";
      }
    }
    prototype = Object.getPrototypeOf(prototype);
  }
  return undefined;
}

/** A container that the walk is in. */
interface Place {
  readonly container: object;
  readonly around: Place | undefined;
  /** From 1. */
  readonly depth: number;
  /** Which of its items is written; undefined before the first. */
  step: string | number | undefined;
}

class JsonWriter {
  readonly #root: string;
  readonly #maxBytes: number;
  /** Where the walk is; after a refusal, what was refused. */
  #place: Place | undefined;
  #text = "";

  constructor(root: string, maxBytes: number) {
    this.#root = root;
    this.#maxBytes = maxBytes;
  }

  write(value: unknown): string {
    this.#value(value);
    return this.#text;
  }

  refused(refusal: Refusal): TrunklineError {
    switch (refusal.kind) {
      case "bytes":
        return tooLarge(this.#root, `over ${this.#maxBytes * GIVE_UP_FACTOR}`, this.#maxBytes);
      case "depth": {
        const metadata = { field: this.#root, limit: "depth", max: String(LIMITS.jsonDepth) };
        return new TrunklineError("LIMIT_EXCEEDED", `${this.#root} ${refusal.message}`, { metadata });
      }
      case "content": {
        const where = this.#where();
        return new TrunklineError("INVALID_JSON", `${where} ${refusal.message}`, {
          metadata: { field: where },
        });
      }
    }
  }

  unreadable(error: unknown): TrunklineError {
    const where = this.#where();
    return new TrunklineError("INVALID_JSON", `${where} cannot be read: ${nameThrown(error)}`, {
      metadata: { field: where },
      cause: error,
    });
  }

  #where(): string {
    const steps: (string | number)[] = [];
    for (let place = this.#place; place !== undefined; place = place.around) {
      if (place.step !== undefined) steps.unshift(place.step);
    }
    let where = this.#root;
    for (const step of steps) {
      if (typeof step === "number") where += `[${step}]`;
      else where += IDENTIFIER.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
      if (where.length > MAX_PATH_CHARACTERS) return `${where.slice(0, MAX_PATH_CHARACTERS)}…`.toWellFormed();
    }
    return where;
  }

  #cannot(what: string, hint = ""): Refusal {
    return new Refusal("content", `is ${what}, which JSON cannot carry${hint}`);
  }

  #value(value: unknown): void {
    switch (typeof value) {
      case "string":
        this.#string(value);
        return;
      case "number":
        if (!Number.isFinite(value)) throw this.#cannot(String(value));
        this.#text += String(value);
        return;
      case "boolean":
        this.#text += value ? "true" : "false";
        return;
      case "object":
        if (value === null) this.#text += "null";
        else this.#object(value);
        return;
      case "undefined":
        throw this.#cannot(
          "undefined",
          this.#place === undefined ? "; give null for nothing" : "; leave it out, or give null",
        );
      case "bigint":
        throw this.#cannot("a BigInt", "; give it as a string, or its digits by rawJson");
      case "function":
      case "symbol":
        throw this.#cannot(`a ${typeof value}`);
    }
  }

  #string(value: string): void {
    if (!value.isWellFormed()) throw this.#cannot("a string with half of a surrogate pair");
    this.#text += JSON.stringify(value);
    this.#checkLength();
  }

  #checkLength(): void {
    if (this.#text.length > this.#maxBytes * GIVE_UP_FACTOR) throw new Refusal("bytes", "");
  }

  #object(value: object): void {
    if (value instanceof RawJson) {
      this.#text += value.text;
      return;
    }
    if (tagOf(value) === "Date" && Number.isNaN(Number(value))) throw this.#cannot("an invalid Date");
    if ("toJSON" in value && typeof value.toJSON === "function") {
      const key = this.#place?.step;
      const written: unknown = Reflect.apply(value.toJSON, value, [key === undefined ? "" : String(key)]);
      if (typeof written !== "object" || written === null || written instanceof RawJson) this.#value(written);
      else this.#container(written);
      return;
    }
    this.#container(value);
  }

  #container(value: object): void {
    const inner = unboxed(value);
    if (inner !== value) {
      this.#value(inner);
      return;
    }
    const lossy = lossyObject(value);
    if (lossy !== undefined) throw this.#cannot(lossy);
    const keys = Array.isArray(value) ? undefined : Object.keys(value);
    const hollow = keys?.length === 0 ? hollowObject(value) : undefined;
    if (hollow !== undefined) throw this.#cannot(hollow);
    const around = this.#place;
    for (let place = around; place !== undefined; place = place.around) {
      if (place.container === value) throw this.#cannot("a cycle (it is one of the objects around it)");
    }
    const depth = around === undefined ? 1 : around.depth + 1;
    if (depth > LIMITS.jsonDepth) {
      throw new Refusal(
        "depth",
        `nests more than ${LIMITS.jsonDepth} arrays and objects; allowed are at most ${LIMITS.jsonDepth}`,
      );
    }
    const place: Place = { container: value, around, depth, step: undefined };
    this.#place = place;
    if (Array.isArray(value)) this.#array(value, place);
    else this.#record(value, keys ?? [], place);
    this.#place = around;
  }

  #array(items: readonly unknown[], place: Place): void {
    this.#text += "[";
    // By index: holes are undefined, and a grown `length` alone must not be silent.
    for (let index = 0; index < items.length; index++) {
      if (index > 0) this.#text += ",";
      place.step = index;
      this.#value(items[index]);
      this.#checkLength();
    }
    this.#text += "]";
  }

  #record(value: object, keys: readonly string[], place: Place): void {
    let before = "{";
    for (const key of keys) {
      if (!key.isWellFormed()) {
        place.step = undefined;
        throw new Refusal("content", "has a key with half of a surrogate pair, which JSON cannot carry");
      }
      place.step = key;
      this.#text += `${before}${JSON.stringify(key)}:`;
      before = ",";
      const item: unknown = Reflect.get(value, key);
      this.#value(item);
      this.#checkLength();
    }
    this.#text += before === "{" ? "{}" : "}";
  }
}
