// Figures out of samples.

/**
 * The value below which this part, from 0 to 1, of the samples lies.
 *
 * @param {readonly number[]} samples
 * @param {number} part
 */
export function percentile(samples, part) {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

/** @param {readonly number[]} samples */
export function median(samples) {
  return percentile(samples, 0.5);
}

/**
 * A figure for people: three digits, or whole with thousands marked.
 *
 * @param {number} value
 */
export function rounded(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}
