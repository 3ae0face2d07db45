import { TrunklineError } from "./errors.js";
import { LIMITS } from "./limits.js";

/**
 * A length of time: positive whole numbers with a unit (`w d h m s ms`), the largest first and each
 * once: "3d", "1h30m", "250ms"; at most ten years. Numbers are refused, because they do not say their
 * unit.
 */
export type Duration = string;

/** Milliseconds of each unit, from the largest. */
const UNITS = [
  ["w", 7 * 24 * 60 * 60 * 1000],
  ["d", 24 * 60 * 60 * 1000],
  ["h", 60 * 60 * 1000],
  ["m", 60 * 1000],
  ["s", 1000],
  ["ms", 1],
] as const;

const ALLOWED =
  "positive whole numbers with a unit (w, d, h, m, s, ms), the largest first and each once, " +
  'such as "3d", "1h30m" or "250ms", at most 10 years (3650d)';

/** Every unit with eleven digits fits. */
const MAX_CHARACTERS = 80;

/** A number has no leading zero, so that each duration is written in one way only. */
const PART = /([1-9][0-9]{0,11})(ms|[wdhms])/y;

function refuse(value: unknown, field: string, why: string): TrunklineError {
  let shown = typeof value === "string" ? JSON.stringify(value) : typeof value;
  if (typeof value === "number") shown = String(value);
  if (shown.length > MAX_CHARACTERS) shown = `${shown.slice(0, 20)}…`;
  return new TrunklineError("INVALID_FIELD", `${field}: ${shown} ${why}; allowed are ${ALLOWED}`, {
    metadata: { field, max: String(LIMITS.durationMs) },
  });
}

/**
 * Reads a {@link Duration}. What is given is `unknown`, since callers in JavaScript pass numbers.
 *
 * @param field what the duration is, for the message
 * @returns milliseconds, from 1 to ten years
 * @throws TrunklineError INVALID_FIELD
 */
export function parseDuration(value: unknown, field: string): number {
  if (typeof value === "number") throw refuse(value, field, "has no unit");
  if (typeof value !== "string") throw refuse(value, field, "is not a duration");
  if (value === "") throw refuse(value, field, "is empty");
  if (value.length > MAX_CHARACTERS) throw refuse(value, field, "is too long for a duration");
  let total = 0;
  let next = 0;
  PART.lastIndex = 0;
  while (PART.lastIndex < value.length) {
    const [, digits, unit] = PART.exec(value) ?? [];
    if (digits === undefined || unit === undefined) throw refuse(value, field, "is not a duration");
    const index = UNITS.findIndex(([name]) => name === unit);
    const found = UNITS[index];
    if (found === undefined || index < next)
      throw refuse(value, field, `has "${unit}" out of order or twice`);
    next = index + 1;
    total += Number(digits) * found[1];
  }
  if (total > LIMITS.durationMs) throw refuse(value, field, "is longer than 10 years");
  return total;
}

/** Weeks are read but not written: "30d" says more than "4w2d". */
const WRITTEN_UNITS = UNITS.filter(([unit]) => unit !== "w");

/** Writes milliseconds as a {@link Duration}: `5400000` becomes "1h30m". Fractions are rounded. */
export function formatDuration(ms: number): Duration {
  let rest = Math.round(ms);
  if (!(rest >= 1)) return "0ms";
  let text = "";
  for (const [unit, size] of WRITTEN_UNITS) {
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return text;
}
