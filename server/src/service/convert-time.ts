import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import type { Instant } from "../store/rows.js";

const MICROS_PER_SECOND = 1_000_000;
const MS_PER_SECOND = 1_000;
const NANOS_PER_MS = 1_000_000;
const NANOS_PER_MICRO = 1_000;

/** An instant, in microseconds, as a timestamp. */
export function toTimestamp(instant: Instant): Timestamp {
  const seconds = Math.floor(instant / MICROS_PER_SECOND);
  return {
    $typeName: "google.protobuf.Timestamp",
    seconds: BigInt(seconds),
    nanos: (instant - seconds * MICROS_PER_SECOND) * NANOS_PER_MICRO,
  };
}

/** Milliseconds as a duration; fractions are rounded. */
export function toDuration(ms: number): Duration {
  const whole = Math.round(ms);
  const seconds = Math.trunc(whole / MS_PER_SECOND);
  return {
    $typeName: "google.protobuf.Duration",
    seconds: BigInt(seconds),
    nanos: (whole - seconds * MS_PER_SECOND) * NANOS_PER_MS,
  };
}

/** What a duration may be, where that is not the usual. */
export interface DurationBounds {
  /** Default 1. */
  readonly minMs?: number;
  /** Default ten years. */
  readonly maxMs?: number;
}

/**
 * A duration as whole milliseconds: positive and at most ten years, unless `bounds` say otherwise.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function fromDuration(
  { seconds, nanos }: Duration,
  field: string,
  bounds: DurationBounds = {},
): number {
  const { minMs = 1, maxMs = LIMITS.durationMs } = bounds;
  const ms = Number(seconds) * MS_PER_SECOND + nanos / NANOS_PER_MS;
  const sameSign = nanos === 0 || seconds === 0n || nanos < 0 === seconds < 0n;
  if (Number.isSafeInteger(ms) && ms >= minMs && ms <= maxMs && sameSign) return ms;
  const shown = `${String(seconds)} s and ${String(nanos)} ns`;
  throw new TrunklineError(
    "INVALID_FIELD",
    `${field} is ${shown}; allowed are whole milliseconds from ${String(minMs)} to ${String(maxMs)}`,
    { metadata: { field, value: shown, min: String(minMs), max: String(maxMs) } },
  );
}
