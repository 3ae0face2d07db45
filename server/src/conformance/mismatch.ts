import { isDeepStrictEqual } from "node:util";

/** What a scenario found wrong: what had to come, and what came instead. */
export class Mismatch extends Error {
  override readonly name = "Mismatch";
  readonly expected: string;
  readonly came: string;

  constructor(expected: string, came: string) {
    super(`expected ${expected}; came: ${came}`);
    this.expected = expected;
    this.came = came;
  }
}

const SHOWN_CHARACTERS = 160;

/** A text on one line, cut to what a person reads. */
export function short(text: string, characters = SHOWN_CHARACTERS): string {
  return text.length <= characters ? text : `${text.slice(0, characters)}… (${text.length} characters)`;
}

/** Requires a value to be the expected one, down to its parts. */
export function same(what: string, came: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(came, expected)) throw new Mismatch(`${what} to be ${show(expected)}`, show(came));
}

/** Requires something to hold; `came` says what was seen instead. */
export function need(holds: boolean, expected: string, came: string): void {
  if (!holds) throw new Mismatch(expected, came);
}

/** Requires two texts to be the same, character by character, however long they are. */
export function sameText(what: string, came: string, expected: string): void {
  if (came === expected) return;
  if (came.length <= SHOWN_CHARACTERS && expected.length <= SHOWN_CHARACTERS) {
    throw new Mismatch(`${what} to be ${expected}`, came);
  }
  let at = 0;
  while (came[at] === expected[at]) at++;
  const around = (text: string): string =>
    `…${text.slice(Math.max(0, at - 20), at + 40)}… at character ${at} of ${text.length}`;
  throw new Mismatch(`${what} to be ${around(expected)}`, around(came));
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  return short(JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? String(each) : each)));
}
