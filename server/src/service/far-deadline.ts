/** A longer timer would fire at once (B07). */
const MAX_TIMER_MS = 2 ** 31 - 1;

const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000 };

/**
 * Takes a deadline away that no timer can wait for: no request lasts for 24 days, and whoever waits for longer waits
 * for ever.
 */
export function dropFarDeadline(header: Headers): void {
  const [ms] = /^\d{1,10}$/.exec(header.get("connect-timeout-ms") ?? "") ?? [];
  if (Number(ms) > MAX_TIMER_MS) header.delete("connect-timeout-ms");
  const [, count, unit = ""] = /^(\d{1,8})([HMS])$/.exec(header.get("grpc-timeout") ?? "") ?? [];
  if (Number(count) * (UNITS_MS[unit] ?? 0) > MAX_TIMER_MS) header.delete("grpc-timeout");
}
