import { TrunklineError } from "./error.js";
import { LIMITS } from "./limits.js";

/** Milliseconds of each unit, from the largest: the order in which a duration names them. */
const UNITS = [
  ["w", 7 * 24 * 60 * 60 * 1000],
  ["d", 24 * 60 * 60 * 1000],
  ["h", 60 * 60 * 1000],
  ["m", 60 * 1000],
  ["s", 1000],
  ["ms", 1],
] as const;

/** Weeks are read but not written: "30d" says more than "4w2d". */
const WRITTEN_UNITS = UNITS.filter(([unit]) => unit !== "w");

const ALLOWED =
  "positive whole numbers with a unit (w, d, h, m, s, ms), the largest first and each once, " +
  'such as "3d", "1h30m" or "250ms", at most 10 years (3650d)';

/** Every unit with eleven digits fits: ten years are twelve digits of milliseconds. */
const MAX_CHARACTERS = 80;

/** A number has no leading zero, so that each duration is written in one way only. */
const PART = /([1-9][0-9]{0,11})(ms|[wdhms])/y;

function refuse(text: string, field: string, why: string): TrunklineError {
  const shown = text.length > MAX_CHARACTERS ? `${text.slice(0, 20)}…` : text;
  return new TrunklineError(
    "INVALID_FIELD",
    `${field}: ${JSON.stringify(shown)} ${why}; allowed are ${ALLOWED}`,
    { metadata: { field, max: String(LIMITS.durationMs) } },
  );
}

/**
 * Reads a duration of the one grammar that SDK, command line and configuration share: positive
 * whole numbers, each with a unit of `w d h m s ms`, the largest unit first and each once, nothing
 * between them: "3d", "1h30m". A bare number, a fraction, a zero, white space, an empty text and
 * anything above ten years are refused.
 *
 * @param field what the text belongs to, for the message
 * @returns milliseconds, from 1 to `LIMITS.durationMs`
 * @throws TrunklineError INVALID_FIELD
 */
export function parseDuration(text: string, field: string): number {
  if (text === "") throw refuse(text, field, "is empty");
  if (text.length > MAX_CHARACTERS) throw refuse(text, field, "is too long for a duration");
  let total = 0;
  let next = 0;
  PART.lastIndex = 0;
  while (PART.lastIndex < text.length) {
    const [, digits, unit] = PART.exec(text) ?? [];
    if (digits === undefined || unit === undefined) throw refuse(text, field, "is not a duration");
    const index = UNITS.findIndex(([name]) => name === unit);
    const found = UNITS[index];
    if (found === undefined || index < next) {
      throw refuse(text, field, `has "${unit}" out of order or twice`);
    }
    next = index + 1;
    total += Number(digits) * found[1];
  }
  if (total > LIMITS.durationMs) throw refuse(text, field, "is longer than 10 years");
  return total;
}

/**
 * Writes a duration in the grammar that {@link parseDuration} reads: `5400000` becomes "1h30m".
 * Days are the largest unit written. For every whole number of milliseconds from 1 to
 * `LIMITS.durationMs`, reading what was written gives the number back; anything below one
 * millisecond is shown as "0ms", which cannot be read.
 *
 * @param ms milliseconds; fractions are rounded
 */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms);
  if (!(rest >= 1)) return "0ms";
  let text = "";
  for (const [unit, size] of WRITTEN_UNITS) {
    const count = Math.floor(rest / size);
    if (count > 0) text += `${String(count)}${unit}`;
    rest -= count * size;
  }
  return text;
}
