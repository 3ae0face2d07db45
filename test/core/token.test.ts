import { expect, test } from "vitest";
import { hasToken, isSameHash } from "../../server/src/core/token.js";

const hash = "0123456789abcdef".repeat(4);
const changedAt = (at: number): string =>
  hash.slice(0, at) + (hash[at] === "f" ? "e" : "f") + hash.slice(at + 1);

test("hashes are the same only where every character is", () => {
  expect(isSameHash(hash, hash)).toBe(true);
  for (let at = 0; at < hash.length; at++) expect(isSameHash(hash, changedAt(at))).toBe(false);
  for (const other of ["", hash.slice(1), hash.slice(0, -1), `${hash}0`, hash.toUpperCase()]) {
    expect(isSameHash(hash, other)).toBe(false);
    expect(isSameHash(other, hash)).toBe(false);
  }
});

test("a hash is looked at to its end, wherever it differs: the time says nothing of how near a guess came", () => {
  /** A text that counts which of its characters are looked at. */
  const counting = (text: string, seen: Set<number>): string =>
    ({
      length: text.length,
      charCodeAt: (at: number) => {
        seen.add(at);
        return text.charCodeAt(at);
      },
    }) as string;
  for (const guess of [hash, changedAt(0), changedAt(63)]) {
    const seen = [new Set<number>(), new Set<number>(), new Set<number>()];
    const tokens = seen.map((each) => ({ attempt: 1, hash: counting(hash, each) }));
    expect(hasToken(tokens, 1, guess)).toBe(guess === hash);
    expect(seen.map(({ size }) => size)).toEqual([64, 64, 64]);
  }
});

test("a token is of its attempt alone", () => {
  const tokens = [
    { attempt: 1, hash },
    { attempt: 3, hash: changedAt(5) },
  ];
  expect([1, 2, 3].map((attempt) => hasToken(tokens, attempt, hash))).toEqual([true, false, false]);
  expect(hasToken([], 1, hash)).toBe(false);
});
