import fc from "fast-check";
import type { Executor } from "../../server/src/core/call.js";
import type { CancelCause, TakeBackCause } from "../../server/src/core/event.js";
import type { Answer } from "../../server/src/core/failure.js";
import { DEFAULT_POLICY, type Policy } from "../../server/src/core/policy.js";

/** Which of the claims made so far: the last one (0), older ones, or one that was never made. */
export type Which = number | "foreign";

/** One thing that happens to a call; what it needs to know of the past is filled in when it is played. */
export type Step =
  | { readonly type: "claim" }
  | { readonly type: "accept"; readonly which: Which }
  /** A worker starts its handler. */
  | { readonly type: "start"; readonly which: Which }
  | { readonly type: "release"; readonly which: Which }
  | { readonly type: "lease_ended"; readonly which: Which }
  | { readonly type: "take_back"; readonly which: Which; readonly cause: TakeBackCause }
  | { readonly type: "answer"; readonly which: Which; readonly answer: Answer }
  | {
      readonly type: "defer";
      readonly which: Which;
      readonly tokenHash: string;
      readonly timeoutMs: number | null;
    }
  | { readonly type: "settle"; readonly attempt: "none" | "last" | number; readonly answer: Answer }
  | {
      readonly type: "settle_by_token";
      /** The token so many before the last one. */
      readonly back: number;
      /** Null: as it was made. */
      readonly otherHash: string | null;
      readonly otherAttempt: number | null;
      readonly answer: Answer;
    }
  | { readonly type: "issue_token"; readonly tokenHash: string }
  | { readonly type: "cancel"; readonly cause: CancelCause }
  | {
      readonly type: "due";
      readonly ready: boolean;
      readonly attempt: boolean;
      readonly defer: boolean;
      readonly total: boolean;
    };

/** All that happens to one call, and the policy that it was opened with. */
export interface Story {
  readonly policy: Policy;
  readonly executor: Executor;
  /** Whether it is born claimed. */
  readonly direct: boolean;
  readonly steps: readonly { readonly step: Step; readonly random: number }[];
}

const ms = fc.integer({ min: 1, max: 100_000 });
const limit = fc.option(ms, { nil: null, freq: 2 });

function mostlyNull<T>(given: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 2, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: given });
}

const policy: fc.Arbitrary<Policy> = fc.record({
  mode: fc.constantFrom("retry", "at_most_once"),
  maxAttempts: fc.integer({ min: 1, max: 4 }),
  backoffInitialMs: fc.integer({ min: 1, max: 1_000 }),
  backoffFactor: fc.integer({ min: 1, max: 3 }),
  backoffMaxMs: fc.integer({ min: 1, max: 5_000 }),
  heartbeatTimeoutMs: fc.constant(DEFAULT_POLICY.heartbeatTimeoutMs),
  detachGraceMs: fc.constant(DEFAULT_POLICY.detachGraceMs),
  attemptTimeoutMs: limit,
  totalTimeoutMs: limit,
  deferTimeoutMs: mostlyNull(ms),
});

const which: fc.Arbitrary<Which> = fc.oneof(
  { weight: 8, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 3 }) },
  { weight: 1, arbitrary: fc.constant("foreign" as const) },
);

const answer: fc.Arbitrary<Answer> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ type: fc.constant("result"), resultJson: fc.constantFrom("1", "2") }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("failure"),
      failure: fc.record({
        kind: fc.constantFrom("tool", "exception", "invalid_answer", "oversized"),
        message: fc.constantFrom("a", "b"),
        dataJson: fc.constantFrom(null, "{}"),
        retryable: fc.constantFrom(true, true, false),
        outcomeUnknown: fc.constant(false),
      }),
    }),
  },
);

const tokenHash = fc.constantFrom("h1", "h2", "h3");

/** In twenty, how often a due time that is set has passed: what ends a call is rare, so that stories are long. */
const passed = (often: number): fc.Arbitrary<boolean> => fc.nat({ max: 19 }).map((drawn) => drawn < often);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 16, arbitrary: fc.record({ type: fc.constant("claim") }) },
  {
    weight: 24,
    arbitrary: fc.record({
      type: fc.constantFrom("accept", "accept", "start", "start", "start", "release", "lease_ended"),
      which,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("take_back"),
      which,
      cause: fc.constantFrom("unframed", "disowned", "undelivered"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant("answer"), which, answer }) },
  {
    weight: 5,
    arbitrary: fc.record({ type: fc.constant("defer"), which, tokenHash, timeoutMs: mostlyNull(ms) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("settle"),
      attempt: fc.oneof(fc.constantFrom("none", "last"), fc.nat({ max: 5 })),
      answer,
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant("settle_by_token"),
      back: fc.nat({ max: 2 }),
      otherHash: mostlyNull(tokenHash),
      otherAttempt: mostlyNull(fc.nat({ max: 5 })),
      answer,
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("issue_token"), tokenHash }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant("cancel"),
      cause: fc.constantFrom("canceled", "run_ended", "run_expired"),
    }),
  },
  {
    weight: 14,
    arbitrary: fc.record({
      type: fc.constant("due"),
      ready: passed(16),
      attempt: passed(8),
      defer: passed(2),
      total: passed(1),
    }),
  },
);

/** Random policies, and 10 to 80 random steps. */
export const story: fc.Arbitrary<Story> = fc.record({
  policy,
  executor: fc.constantFrom("worker", "worker", "worker", "client"),
  direct: fc.boolean(),
  steps: fc.array(fc.record({ step, random: fc.double({ min: 0, max: 1, noNaN: true }) }), {
    minLength: 10,
    maxLength: 80,
    size: "max",
  }),
});
