/**
 * Whether tests run at full size: with the default timings and for as long as an operator would, which the suite
 * has no time for. `TRUNKLINE_FULL_SIZE=1 npx vitest run test/nodes/nginx.test.ts`, one file at a time.
 */
export const FULL_SIZE = process.env["TRUNKLINE_FULL_SIZE"] === "1";

/** A test's number, as the suite has it and at full size. */
export function sized<T>(small: T, full: T): T {
  return FULL_SIZE ? full : small;
}

/** At full size, says what was measured. */
export function figure(what: string, value: string | number): void {
  if (FULL_SIZE) console.log(`${new Date().toISOString()} ${what}: ${value}`);
}

/** The middle, the 99th percentile and the worst of what was measured. */
export function spread(values: readonly number[], unit: string): string {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): string => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
    return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
  };
  return `median ${at(0.5)}, p99 ${at(0.99)}, worst ${at(1)} of ${sorted.length}`;
}
