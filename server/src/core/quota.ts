/**
 * What one key, end user or project may use. Rates and streams are counted by each node for itself, open calls for the
 * whole server.
 */
export const QUOTA_NAMES = [
  /** Calls that a key opens in a second. */
  "key.calls_per_second",
  /** Streams, and requests that wait, of a key at a time. */
  "key.streams",
  /** Calls that are opened in a second for an end user. */
  "namespace.calls_per_second",
  /** Streams, and requests that wait, of an end user's tokens at a time. */
  "namespace.streams",
  /** Calls of an end user that are open at a time. */
  "namespace.open_calls",
  /** Calls of a project that are open at a time. */
  "project.open_calls",
] as const;

/** One of {@link QUOTA_NAMES}. */
export type QuotaName = (typeof QUOTA_NAMES)[number];

/** Which are set; what is not has no bound of its own. */
export type QuotaLimits = Readonly<Partial<Record<QuotaName, number>>>;
