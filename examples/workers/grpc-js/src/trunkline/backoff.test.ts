import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "./backoff.js";

test("pauses keep to their limits, and spread", () => {
  const early: number[] = [];
  const late: number[] = [];
  for (let outage = 0; outage < 200; outage++) {
    const backoff = new Backoff();
    for (let tries = 0; tries < 20; tries++) early.push(backoff.next(5_000));
    for (let tries = 0; tries < 20; tries++) late.push(backoff.next(15_000));
  }
  const longest = { early: Math.max(...early), late: Math.max(...late) };
  assert.ok(
    longest.early <= 2_000 && longest.early > 1_000,
    `in the first ten seconds it was ${longest.early} ms`,
  );
  assert.ok(longest.late <= 8_000 && longest.late > 4_000, `later it was ${longest.late} ms`);
});
