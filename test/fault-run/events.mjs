/**
 * What the processes of a fault run write into their histories. All times are microseconds of the machine's
 * monotonic clock, which no process can shift and all share.
 *
 * @typedef {object} Place
 * @property {number} t When it was written.
 * @property {string} p The process: its name and its life, such as `worker-2#3`.
 * @property {string} at File and line, added by whoever reads the history.
 */

/**
 * A failure as anybody saw it.
 *
 * @typedef {object} FailureSeen
 * @property {string} kind
 * @property {string} message
 * @property {string | null} dataJson
 * @property {boolean} retryable
 * @property {boolean} outcomeUnknown
 */

/**
 * How a call stands or ended, as anybody saw it.
 *
 * @typedef {object} Seen
 * @property {string} id
 * @property {string} state
 * @property {number} attempt
 * @property {string | null} resultJson
 * @property {FailureSeen | null} failure
 * @property {number | null} endedAt Milliseconds since 1970 by the database's clock.
 */

/**
 * The part of a policy that the checker judges by.
 *
 * @typedef {object} Bounds
 * @property {"retry" | "at_most_once"} mode
 * @property {number} maxAttempts
 * @property {number | null} attemptMs
 * @property {number | null} totalMs
 * @property {number | null} deferMs
 */

/**
 * What a handler, or whoever answers in its place, says.
 *
 * @typedef {{ resultJson: string, failure?: undefined }
 *   | { resultJson?: undefined, failure: { kind: string, message: string, retryable: boolean } }} Said
 */

/**
 * Everything that is written, by `type`.
 *
 * @typedef {{ type: "life", concurrency?: number }
 *   | { type: "run-creating", key: string, ttlMs: number | null }
 *   | { type: "run-created", run: string, key: string }
 *   | { type: "run-ending", run: string }
 *   | { type: "run-ended", run: string }
 *   | { type: "opening", run: string, key: string, tool: string, client: boolean, turn: number | null,
 *       bounds: Bounds, inputJson: string }
 *   | { type: "opened", run: string, key: string, id: string }
 *   | { type: "refused", what: string, subject: string, attempt?: number, reason: string,
 *       message: string }
 *   | ({ type: "outcome" } & Seen)
 *   | { type: "undelivered", subject: string }
 *   | { type: "turn-waiting", run: string, turn: number }
 *   | { type: "turn-settled", run: string, turn: number, since: number, outcomes: Seen[] }
 *   | { type: "canceling", id: string }
 *   | { type: "canceled", id: string, state: string }
 *   | { type: "answering", id: string, by: "token" | "id", said: Said }
 *   | { type: "answered", id: string, by: "token" | "id", said: Said, state: string }
 *   | { type: "start", id: string, call: string, attempt: number, tool: string, inputJson: string }
 *   | { type: "end", id: string, attempt: number, said: Said | null }
 *   | { type: "deferring", id: string, attempt: number }
 *   | { type: "deferred", id: string, attempt: number }
 *   | { type: "worker-error", id: string | null, reason: string, message: string }
 *   | { type: "fault", kind: string, target: string, detail: string }
 *   | { type: "skipped", kind: string, why: string }
 *   | { type: "crashed", name: string, how: string }
 *   | { type: "clock", databaseMs: number }
 *   | { type: "healed" }
 *   | { type: "waiting-at-end", id: string, state: string }
 *   | ({ type: "row", run: string, key: string, tool: string, turn: number | null, mode: string,
 *       executor: string, spent: number, maxAttempts: number, inputJson: string, openedAt: number,
 *       claimedAt: number | null, attempts: AttemptRow[] } & Seen)
 *   | { type: "run-row", run: string, key: string | null, state: string }
 *   | ({ type: "read" } & Seen)} Written
 */

/**
 * A failed attempt as its call's row keeps it; times in milliseconds since 1970.
 *
 * @typedef {object} AttemptRow
 * @property {number} number
 * @property {number | null} claimedAt
 * @property {number} endedAt
 * @property {string} kind
 */

/** @typedef {Written & Place} Event */

/**
 * The events of one type.
 *
 * @template {Written["type"]} T
 * @typedef {Extract<Written, { type: T }> & Place} EventOf
 */

export {};
