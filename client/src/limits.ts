/**
 * The limits that the SDK keeps by itself, so that what is too large fails where it was made. The
 * server enforces them all, and may announce a smaller result, input or frame in its `welcome`.
 */
export const LIMITS = {
  /** A call's input and its result, in bytes of UTF-8. */
  payloadBytes: 1024 * 1024,
  failureMessageBytes: 8 * 1024,
  failureDataBytes: 64 * 1024,
  progressBytes: 64 * 1024,
  jsonDepth: 256,
  /** A frame is closed at this size, unless one item alone is larger. */
  frameTargetBytes: 64 * 1024,
  /** Handler slots of one worker. */
  concurrency: 10_000,
  /** The longest duration anywhere: ten years of 365 days. */
  durationMs: 10 * 365 * 24 * 60 * 60 * 1000,
  /** The longest delay of a timer; Node fires at once above it. */
  timerMs: 2 ** 31 - 1,
} as const;
