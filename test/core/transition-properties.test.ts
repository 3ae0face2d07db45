import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CallLife } from "./transition-model.js";
import { story, type Story } from "./transition-steps.js";

/** How many random stories: more of them for a longer look. */
const STORIES = Number(process.env["TRUNKLINE_STORIES"] ?? 5_000);

function live(told: Story, seen?: (what: string) => void): CallLife {
  const life = new CallLife(told, seen);
  for (const { step, random } of told.steps) life.play(step, random);
  return life;
}

describe("a call, whatever happens to it", () => {
  test(
    "stays final (I1), fenced (I2), started at most once (I3), counted (I4) and never stuck (I6)",
    { timeout: 600_000 },
    () => {
      fc.assert(
        fc.property(story, (told) => void live(told)),
        { numRuns: STORIES },
      );
    },
  );

  test("reaches in random stories what the properties are about", () => {
    const seen = new Map<string, number>();
    for (const told of fc.sample(story, { numRuns: 5_000, seed: 1 })) {
      live(told, (what) => seen.set(what, (seen.get(what) ?? 0) + 1));
    }
    const rare = [
      "retry: a handler was started",
      "at_most_once: a handler was started",
      "retry: queued, answer: succeeded",
      "retry: queued, answer: failed",
      "retry: queued, answer: unchanged",
      "retry: queued, answer: CLAIM_LOST",
      "retry: queued, defer: deferred",
      "retry: queued, settle_by_token: succeeded",
      "retry: claimed, lease_ended: queued",
      "retry: claimed, lease_ended: failed",
      "retry: claimed, settle: queued",
      "retry: claimed, take_back: queued",
      "retry: claimed, take_back: failed",
      "retry: claimed, settle_by_token: STALE_ATTEMPT",
      "retry: deferred, settle_by_token: STALE_ATTEMPT",
      "retry: deferred, settle_by_token: TOKEN_INVALID",
      "retry: deferred, settle: queued",
      "retry: deferred, settle: deferred",
      "retry: deferred, due: queued",
      "retry: deferred, due: deferred",
      "retry: deferred, due: failed",
      "retry: deferred, defer: unchanged",
      "retry: deferred, answer: CALL_DEFERRED",
      "retry: succeeded, answer: unchanged",
      "retry: succeeded, defer: unchanged",
      "retry: succeeded, settle: CALL_ENDED",
      "at_most_once: claimed, accept: claimed",
      "at_most_once: claimed, accept: unchanged",
      "at_most_once: claimed, release: queued",
      "at_most_once: claimed, lease_ended: queued",
      "at_most_once: claimed, lease_ended: failed",
      "at_most_once: claimed, take_back: queued",
      "at_most_once: claimed, take_back: failed",
      "at_most_once: claimed, defer: deferred",
      "at_most_once: queued, accept: CLAIM_LOST",
      "at_most_once: deferred, due: failed",
    ];
    const few = rare.filter((what) => (seen.get(what) ?? 0) < 3);
    expect(few).toEqual([]);
  });
});
