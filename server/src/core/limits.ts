/** The limits that are enforced at the door, in bytes of UTF-8 unless the name says otherwise. */
export const LIMITS = {
  /** A call's input, and its result. */
  payloadBytes: 1024 * 1024,
  failureMessageBytes: 8 * 1024,
  failureDataBytes: 64 * 1024,
  progressBytes: 64 * 1024,
  /** A stream frame: the default receive limit of gRPC clients. */
  frameBytes: 4 * 1024 * 1024,
  /** Of all lists of one message together. A worker that holds all that it may is far below. */
  messageItems: 30_000,
  /** A side closes a frame at this size, unless one item alone is larger. */
  frameTargetBytes: 64 * 1024,
  jsonDepth: 256,
  toolNameBytes: 128,
  /** Namespaces, keys, session ids, worker names. */
  nameBytes: 256,
  labels: 32,
  labelNameBytes: 64,
  labelValueBytes: 256,
  callsPerRequest: 1_000,
  credit: 10_000,
  toolsPerToolset: 1_000,
  toolDescriptionBytes: 16 * 1024,
  toolSchemaBytes: 64 * 1024,
  toolSchemaDepth: 32,
  /** Attempts of one call, and the retry bound a policy may set. */
  maxAttempts: 1_000,
  /** Completion tokens that one call may have. */
  tokensPerCall: 100,
  /** Failed attempts that stay on the row. */
  attemptHistory: 20,
  /** The longest duration anywhere: ten years of 365 days. */
  durationMs: 10 * 365 * 24 * 60 * 60 * 1000,
  /** Opens that one Drive stream may have waiting, by number and by bytes. */
  driveOpens: 2_000,
  driveBytes: 16 * 1024 * 1024,
  /** Replies on one Work stream that its worker has not read: credit bounds its claims, but not what it makes up. */
  workReplyBytes: 16 * 1024 * 1024,
  /** Answers, deferrals and releases of one Work stream that wait for the database. */
  workItemsWaiting: 50_000,
  /** Opens of all clients that wait for the database at one node; more are refused as OVERLOADED. */
  opensWaiting: 50_000,
  opensWaitingBytes: 128 * 1024 * 1024,
  /** Unary requests that one node works on, waits not counted; more are refused as OVERLOADED. */
  requestsInFlight: 2_000,
  /** Unary waits at one node; more are refused as OVERLOADED. */
  waitsInFlight: 20_000,
  /** Requests of one RPC at one node that show no credential, where the RPC asks for none; more are OVERLOADED. */
  anonymousRequests: 1_000,
  /** What one node holds of the bodies of all of them until they are complete. */
  anonymousBodyBytes: 64 * 1024 * 1024,
  /** Unary answers are cut into pages of this size. */
  pageBytes: 4 * 1024 * 1024,
  pageItems: 1_000,
} as const;
