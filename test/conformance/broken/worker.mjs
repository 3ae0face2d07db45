/**
 * A worker by hand, by the contract of the conformance kit, with one thing wrong: the one that BROKEN names, of
 * those in mistakes.mjs. Without it everything is right. Nothing here is to be copied: examples/workers has what is.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { FailureKind } from "@trunkline/proto/model";
import {
  ClaimVerdict_Standing as Standing,
  RevokeReason,
  WorkerService,
  WorkRequestSchema,
} from "@trunkline/proto/worker";

/** @typedef {import("@trunkline/proto/worker").Claim} Claim */
/** @typedef {import("@trunkline/proto/worker").WorkResponse} Frame */
/** @typedef {import("@bufbuild/protobuf").MessageInitShape<typeof WorkRequestSchema>} Request */
/**
 * @typedef {object} Held
 * @property {Claim} claim
 * @property {boolean} started
 * @property {AbortController} lost
 * @property {Request} [item] What was said about it and is not acknowledged.
 * @property {(problem: unknown) => void} [stored] For a deferral.
 */

const {
  BROKEN = "",
  TRUNKLINE_URL = "",
  TRUNKLINE_KEY = "",
  TRUNKLINE_WORKER = "",
  TRUNKLINE_CONCURRENCY = "1",
} = process.env;
/** @param {import("./mistakes.mjs").Mistake[]} mistakes */
const broken = (...mistakes) => mistakes.some((mistake) => mistake === BROKEN);

const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const concurrency = Number(TRUNKLINE_CONCURRENCY);
const sessionId = randomUUID();
const nonce = broken("same-nonce") ? "0123456789abcdef" : randomBytes(16).toString("hex");
/** @type {Map<string, Held>} */
const held = new Map();
/** @type {Set<string>} */
const calls = new Set();
let busy = 0;
let granted = 0;
let hellos = 0;
let draining = false;
let failures = 0;
let maxResultBytes = 0;
/** @type {Stream | undefined} */
let newest;
/** @type {Stream | undefined} */
let active;

/** One stream, on a connection of its own. */
class Stream {
  /** @type {Request[]} */
  #queue = [];
  #wake = () => undefined;
  #ended = false;
  #heardAt = performance.now();
  intervalMs = 5_000;

  /** @param {Http2SessionManager} connection */
  constructor(connection = new Http2SessionManager(TRUNKLINE_URL)) {
    this.connection = connection;
    const key = broken("no-key") ? "" : `Bearer ${TRUNKLINE_KEY}`;
    const transport = createGrpcTransport({
      baseUrl: TRUNKLINE_URL,
      sessionManager: connection,
      ...(broken("reads-less") ? { readMaxBytes: MAX_FRAME_BYTES - 1 } : {}),
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", key);
          return next(request);
        },
      ],
    });
    this.send({ hello: hello() });
    void this.#read(createClient(WorkerService, transport).work(this.#requests()));
  }

  /** @param {Request} frame */
  send(frame) {
    this.#queue.push(frame);
    this.#wake();
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  async *#requests() {
    for (;;) {
      const next = this.#queue.shift();
      if (next !== undefined) yield create(WorkRequestSchema, next);
      else if (this.#ended) return;
      else await new Promise((resolve) => (this.#wake = () => void resolve(undefined)));
    }
  }

  /** @param {AsyncIterable<Frame>} frames */
  async #read(frames) {
    /** @type {NodeJS.Timeout | undefined} */
    let beat;
    let cause;
    try {
      for await (const frame of frames) {
        this.#heardAt = performance.now();
        if (frame.welcome !== undefined) {
          const { heartbeatInterval, verdicts } = frame.welcome;
          maxResultBytes = frame.welcome.maxResultBytes;
          this.intervalMs = heartbeatInterval === undefined ? 5_000 : durationMs(heartbeatInterval);
          welcomed(this, verdicts);
          beat = setInterval(() => this.#beat(), this.intervalMs * (broken("slow-beats") ? 2.4 : 1));
        }
        apply(this, frame);
      }
    } catch (error) {
      cause = error;
    }
    clearInterval(beat);
    this.connection.abort();
    ended(this, cause);
  }

  #beat() {
    const silentMs = performance.now() - this.#heardAt;
    if (silentMs > 3 * this.intervalMs && !broken("trusts-silence")) {
      this.connection.abort();
      return;
    }
    const named = [...held].filter(([, { item }]) => item === undefined || !broken("beats-without-outbox"));
    if (this === active) this.send({ heartbeat: { claims: named.map(([id]) => id) } });
  }
}

function hello() {
  hellos++;
  if (broken("forgets-outbox")) for (const [id, { item }] of held) if (item !== undefined) held.delete(id);
  return {
    sessionId,
    nonce: broken("new-nonce") ? randomBytes(16).toString("hex") : nonce,
    worker: TRUNKLINE_WORKER,
    tools: Object.keys(handlers),
    slots: broken("counts-all-slots") ? concurrency : concurrency - busy,
    claims: [...held.values()].map(({ claim: { claimId, callId } }) => ({ claimId, callId })),
    number: BigInt(broken("stands-still") ? 1 : hellos),
  };
}

/**
 * @param {Stream} stream
 * @param {import("@trunkline/proto/worker").ClaimVerdict[]} verdicts
 */
function welcomed(stream, verdicts) {
  active = stream;
  failures = 0;
  for (const { claimId, standing } of verdicts) {
    if (standing === Standing.CONFIRMED) confirmed(claimId);
    if (standing === Standing.LOST && !broken("ignores-verdict")) lose(claimId);
  }
  for (const { item } of held.values()) if (item !== undefined) stream.send(item);
  if (broken("resends-grants") && granted > 0) stream.send({ grant: granted });
  if (draining) stream.send({ drain: {} });
}

/**
 * @param {Stream} stream
 * @param {Frame} frame
 */
function apply(stream, frame) {
  for (const claim of frame.claims) receive(stream, claim);
  for (const claimId of frame.confirmed) confirmed(claimId);
  for (const { claimId, problem } of frame.acks) acknowledged(stream, claimId, problem);
  for (const { claimId, reason } of frame.revoked) {
    if (broken("strict-enums") && RevokeReason[reason] === undefined) throw new Error(`reason ${reason}`);
    if (!broken("ignores-revoked")) lose(claimId);
  }
  for (const claimId of frame.heartbeatAck?.lost ?? []) if (!broken("ignores-lost")) lose(claimId);
  if (frame.drained !== undefined) stream.end();
  if (frame.goaway !== undefined && stream === newest && !broken("stays-after-goaway")) {
    newest = new Stream(broken("same-connection") ? stream.connection : undefined);
    if (broken("drops-old")) stream.connection.abort();
  }
}

/**
 * @param {Stream} stream
 * @param {Claim} claim
 */
function receive(stream, claim) {
  if (held.has(claim.claimId)) {
    if (broken("starts-twice")) void run({ claim, started: true, lost: new AbortController() });
    stream.send({ grant: 1 });
    return;
  }
  if (broken("one-attempt") && calls.has(claim.callId)) return;
  calls.add(claim.callId);
  /** @type {Held} */
  const one = { claim, started: false, lost: new AbortController() };
  held.set(claim.claimId, one);
  if (draining && !broken("starts-when-draining")) {
    say(one, { releases: [claim.claimId] });
    return;
  }
  busy++;
  if (!broken("never-accepts")) (active ?? stream).send({ accepted: [claim.claimId] });
  if (!claim.confirm || broken("starts-unconfirmed")) start(one);
}

/** @param {string} claimId */
function confirmed(claimId) {
  const one = held.get(claimId);
  if (one !== undefined && (broken("confirms-twice") || !one.started)) start(one);
}

/** @param {Held} one */
function start(one) {
  one.started = true;
  void run(one);
}

/** @param {Held} one */
async function run(one) {
  const { claim, lost } = one;
  const { claimId, callId, attempt, tool, inputJson } = claim;
  if (broken("grants-early")) free();
  console.log(`started ${callId} ${attempt}`);
  try {
    if (broken("recurses")) walk(JSON.parse(inputJson));
  } catch {
    return;
  }
  const answer = await handle(tool, inputJson, one);
  if (answer !== undefined && (!lost.signal.aborted || broken("answers-lost"))) {
    say(one, { answers: [{ claimId, callId, outcome: answer }] });
  }
  if (!broken("grants-early")) free();
}

function free() {
  busy--;
  granted++;
  newest?.send({ grant: 1 });
}

/**
 * @param {Held} one
 * @param {Request} item
 */
function say(one, item) {
  one.item = item;
  if (broken("one-frame") && item.answers !== undefined) gather(item);
  else active?.send(item);
}

/** @type {import("@trunkline/proto/worker").Answer[]} */
let gathered = [];

/** @param {Request} item */
function gather({ answers = [] }) {
  gathered.push(...create(WorkRequestSchema, { answers }).answers);
  if (gathered.length === 5) flush();
  else setTimeout(flush, 300);
}

function flush() {
  if (gathered.length > 0) active?.send({ answers: gathered });
  gathered = [];
}

/** @param {string} claimId */
function lose(claimId) {
  const one = held.get(claimId);
  if (one === undefined || one.item !== undefined) return;
  held.delete(claimId);
  one.lost.abort();
  if (!one.started) free();
}

/**
 * @param {Stream} stream
 * @param {string} claimId
 * @param {unknown} problem
 */
function acknowledged(stream, claimId, problem) {
  const one = held.get(claimId);
  if (one?.item === undefined) return;
  if (problem !== undefined && broken("resends-refused")) stream.send(one.item);
  else held.delete(claimId);
  one.stored?.(problem);
}

/**
 * @param {Stream} stream
 * @param {unknown} cause
 */
function ended(stream, cause) {
  if (stream === active) active = undefined;
  if (stream !== newest) return;
  newest = undefined;
  if (draining && held.size === 0) process.exit(0);
  const code = cause instanceof ConnectError ? cause.code : undefined;
  const refused = code === Code.Unauthenticated || code === Code.PermissionDenied;
  if (refused && !broken("tries-again")) process.exit(broken("ends-in-order") ? 0 : 1);
  if (code === Code.Unavailable && broken("gives-up")) process.exit(1);
  const waitMs = broken("slow-return") ? 200 * 3 ** failures : 200 * Math.min(5, failures + 1);
  failures++;
  setTimeout(() => (newest = new Stream()), waitMs);
}

/**
 * @typedef {{ case: "resultJson", value: string }
 *   | { case: "failure", value: { kind: FailureKind, message: string, dataJson?: string, retryable?: boolean } }
 *   | undefined} Outcome
 */

/** @type {Record<string, (input: any, one: Held) => Promise<Outcome> | Outcome>} */
const handlers = {
  echo: (input, { claim }) => result(broken("parses-numbers") ? JSON.stringify(input) : claim.inputJson),
  fail: ({ message, data, retryable = false }) => {
    const dataJson = data === undefined || broken("drops-data") ? "" : JSON.stringify(data);
    const again = retryable && !broken("drops-retryable");
    const fits = Buffer.byteLength(dataJson) <= 65_536 || broken("sends-all-data");
    const kind = fits ? FailureKind.TOOL : FailureKind.OVERSIZED;
    return { case: "failure", value: { kind, message, dataJson: fits ? dataJson : "", retryable: again } };
  },
  crash: ({ message }) => {
    throw new Error(message);
  },
  sleep: async ({ ms }, { claim, lost }) => {
    try {
      await delay(ms, undefined, { signal: lost.signal });
    } catch (error) {
      console.log(`stopped ${claim.callId}`);
      throw error;
    }
    return result('{"slept":true}');
  },
  defer: async ({ timeout_ms: ms }, one) => {
    const { claimId, callId, attempt } = one.claim;
    const secret = randomBytes(broken("short-secret") ? 16 : 32).toString("base64url");
    const token = `token ${callId}.${attempt}.${secret}`;
    const timeout = ms === 0 ? {} : { timeout: durationFromMs(ms) };
    const stored = new Promise((resolve) => (one.stored = resolve));
    say(one, { deferrals: [{ claimId, callId, secret, ...timeout }] });
    if (broken("token-early")) console.log(token);
    const problem = await stored;
    if (problem === undefined || broken("trusts-deferrals")) console.log(token);
    return undefined;
  },
  big: ({ bytes }) => result(JSON.stringify("x".repeat(bytes))),
};

/**
 * @param {string} value
 * @returns {Outcome}
 */
function result(value) {
  const bytes = Buffer.byteLength(value);
  if (bytes <= maxResultBytes || broken("any-size")) return { case: "resultJson", value };
  const message = `the result has ${bytes} bytes; allowed are ${maxResultBytes}`;
  return { case: "failure", value: { kind: FailureKind.OVERSIZED, message } };
}

/**
 * @param {any} value
 * @returns {number} How deep it nests.
 */
function walk(value) {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Object.values(value).reduce((depth, each) => Math.max(depth, walk(each)), 0);
}

/**
 * @param {string} tool
 * @param {string} inputJson
 * @param {Held} one
 * @returns {Promise<Outcome>}
 */
async function handle(tool, inputJson, one) {
  try {
    const input = JSON.parse(inputJson);
    if (broken("shallow-parser") && walk(input) > 128) throw new Error("it nests too deep");
    return await handlers[tool]?.(input, one);
  } catch (error) {
    const kind = broken("exceptions-as-failures") ? FailureKind.TOOL : FailureKind.EXCEPTION;
    return { case: "failure", value: { kind, message: String(error) } };
  }
}

process.once("SIGTERM", () => {
  if (broken("quits")) process.exit(0);
  draining = true;
  for (const one of held.values()) {
    if (one.started || one.item !== undefined) continue;
    say(one, { releases: [one.claim.claimId] });
    free();
  }
  active?.send({ drain: {} });
  if (broken("leaves-early")) active?.end();
});

newest = new Stream();
