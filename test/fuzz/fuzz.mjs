import { Random } from "../fault-run/random.mjs";
import { Database } from "../fault-run/stage/postgres.mjs";
import { Known } from "./input/known.mjs";
import { Judge } from "./judge.mjs";
import { KINDS, pickKind } from "./kinds/kinds.mjs";
import { Credentials } from "./stage/credentials.mjs";
import { probe } from "./stage/probe.mjs";
import { FuzzedServer } from "./stage/server.mjs";
import { violationsOf } from "./violations.mjs";
import { Http2Pool } from "./wire/http2-client.mjs";

/** @typedef {import("./options.mjs").Options} Options */
/** @typedef {import("./stage/server.mjs").Census} Census */
/**
 * What is left behind by clients that have gone; `goaways` are those whose connections may still be there.
 *
 * @typedef {{ sockets: number, sessions: number, goaways: number }} Leavings
 */

/** An answer that takes longer is late, and so long, none at all: this machine may be busy with other things. */
const LATE_MS = 2_000;
const PATIENCE_MS = 15_000;
const CONNECTIONS = 6;
/** Before memory is measured for the first time: code is compiled, caches and pools are filled. */
const WARM_UP_PART = 0.1;
const MOST_WARM_UP = 10_000;
const SAMPLES = 10;
/** Peers that break HTTP/2 are let go after so long at the latest. */
const GOAWAY_MS = 100_000;
/** All that waited in memory for its end has ended then. */
const REST_MS = 2_000;

/**
 * Starts a server, sends it the inputs, and sees what has become of it.
 *
 * @param {Options} options
 * @param {string} folder For its files.
 * @param {string} databaseUrl Of an empty database.
 */
export async function fuzz(options, folder, databaseUrl) {
  const server = new FuzzedServer(folder, databaseUrl, options.verbose);
  const database = new Database(databaseUrl);
  try {
    await server.ready();
    return await new FuzzRun(options, server, database).run();
  } finally {
    await server.kill();
    await database.close();
  }
}

class FuzzRun {
  #options;
  #server;
  #database;
  #judge = new Judge();
  #next;
  /** What is being sent, by its number. @type {Map<number, string>} */
  #underWay = new Map();
  #longestMs = 0;
  #late = 0;
  /** When clients broke HTTP/2, the last ones. @type {number[]} */
  #goaways = [];

  /**
   * @param {Options} options
   * @param {FuzzedServer} server
   * @param {Database} database
   */
  constructor(options, server, database) {
    this.#options = options;
    this.#server = server;
    this.#database = database;
    this.#next = options.from;
  }

  async run() {
    const { inputs } = this.#options;
    const credentials = await Credentials.make(this.#server.url);
    const usualMs = await probe(this.#server.url, credentials.ownKey);
    const began = performance.now();
    const known = new Known(credentials.isOwn);
    const cold = await this.#server.census();
    const warmUp = Math.min(MOST_WARM_UP, Math.ceil(inputs * WARM_UP_PART));
    await this.#send(credentials, known, warmUp);
    await this.#settled();
    const before = await this.#server.census();
    const samples = [];
    for (let sample = 1; sample <= SAMPLES; sample++) {
      await this.#send(credentials, known, warmUp + ((inputs - warmUp) * sample) / SAMPLES);
      const census = await this.#server.census();
      samples.push({
        inputs: this.#judge.total,
        heapBytes: census?.heapBytes ?? 0,
        rssBytes: census?.rssBytes ?? 0,
      });
      this.#say(census);
    }
    const tookMs = performance.now() - began;
    const leavings = await this.#settled();
    const after = await this.#server.census();
    const end = this.#server.end;
    const laterMs = end === undefined ? await this.#probeAgain(credentials) : [];
    const stopped = await this.#server.stop();
    const seen = { cold, before, samples, after, leavings, usualMs, laterMs, end, stopped };
    return this.#report(seen, tookMs, credentials);
  }

  /**
   * @param {Omit<import("./violations.mjs").Seen, "faults" | "stalls" | "secretsInLog" | "judge" | "underWay">} seen
   * @param {number} tookMs
   * @param {Credentials} credentials
   */
  #report(seen, tookMs, credentials) {
    const { log, faults } = this.#server;
    const secretsInLog = credentials.secrets.filter((secret) =>
      log.some((line) => line.includes(secret)),
    ).length;
    const stalls = this.#server.stalls();
    const all = { ...seen, stalls, faults, secretsInLog, judge: this.#judge, underWay: [...this.#underWay] };
    const { inputs, codes } = this.#judge;
    return {
      ...{ seed: this.#options.seed, inputs: this.#judge.total, tookSeconds: tookMs / 1_000 },
      inputsByKind: Object.fromEntries(inputs),
      answers: Object.fromEntries([...codes].map(([kind, counts]) => [kind, Object.fromEntries(counts)])),
      ...{ longestMs: this.#longestMs, late: this.#late, stalls: stalls.slice(0, 5) },
      ...{ usualMs: seen.usualMs, laterMs: seen.laterMs, leavings: seen.leavings },
      memory: { cold: seen.cold, before: seen.before, after: seen.after, samples: seen.samples },
      words: Object.fromEntries([...this.#judge.words].sort(([, a], [, b]) => b - a)),
      logLines: log.length,
      violations: violationsOf(all),
    };
  }

  /**
   * Sends inputs until so many have been sent.
   *
   * @param {Credentials} credentials
   * @param {Known} known
   * @param {number} until
   */
  async #send(credentials, known, until) {
    const pool = new Http2Pool(this.#server.url, CONNECTIONS);
    const onGoaway = () => this.#goaways.push(performance.now());
    const context = { port: this.#server.port, pool, known, credentials, patienceMs: PATIENCE_MS, onGoaway };
    const isOver = () => this.#judge.total >= until || this.#server.end !== undefined;
    const lane = async () => {
      while (!isOver()) await this.#one(context, this.#next++);
    };
    await Promise.all(Array.from({ length: this.#options.lanes }, lane));
    pool.close();
  }

  /**
   * @param {import("./kinds/context.mjs").Context} context
   * @param {number} input
   */
  async #one(context, input) {
    const { seed, only, verbose } = this.#options;
    const random = new Random(`${seed}/${input}`);
    const kind = pickKind(
      random,
      only.length === 0 ? KINDS : KINDS.filter(({ name }) => only.includes(name)),
    );
    this.#underWay.set(input, kind.name);
    const began = performance.now();
    const answer = await kind.send(context, random);
    // What was under way at a crash says what it may have been.
    if (this.#server.end !== undefined) return;
    this.#underWay.delete(input);
    const tookMs = performance.now() - began;
    this.#longestMs = Math.max(this.#longestMs, tookMs);
    if (tookMs > LATE_MS) this.#late++;
    const finding = this.#judge.take(input, kind.name, answer);
    if (verbose && finding !== undefined)
      console.log(JSON.stringify({ input, kind: kind.name, tookMs, ...answer }));
  }

  /** Waits until nothing is left of the clients, and says what is. */
  async #settled() {
    const giveUpAt = performance.now() + this.#options.settleSeconds * 1_000;
    for (;;) {
      const leavings = await this.#leavings();
      const isOver = performance.now() > giveUpAt || this.#server.end !== undefined;
      if (isOver || leavings.sockets + leavings.goaways + leavings.sessions === 0) {
        await new Promise((resolve) => setTimeout(resolve, REST_MS));
        return leavings;
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** @returns {Promise<Leavings>} */
  async #leavings() {
    const now = performance.now();
    this.#goaways = this.#goaways.filter((at) => at > now - GOAWAY_MS);
    const rows = await this.#database.query(
      "SELECT count(*)::int AS count FROM sessions WHERE state = 'attached'",
    );
    return { sockets: this.#server.sockets(), sessions: rows[0]?.count ?? 0, goaways: this.#goaways.length };
  }

  /** @param {Credentials} credentials */
  async #probeAgain({ ownKey }) {
    try {
      return await probe(this.#server.url, ownKey);
    } catch (error) {
      console.log(`the probe failed: ${String(error)}`);
      return [];
    }
  }

  /** @param {Census | undefined} census */
  #say(census) {
    const mib = (/** @type {number} */ bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
    const { findings } = this.#judge;
    console.log(
      `${this.#judge.total} inputs, ${findings.length} findings; heap ${mib(census?.heapBytes ?? 0)}, RSS ${mib(census?.rssBytes ?? 0)}`,
    );
  }
}
