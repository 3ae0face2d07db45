// Starts everything that a subject needs, for the time of a measurement.
import { createDatabase } from "./database.mjs";
import { startProgram } from "./program.mjs";
import { startServer } from "./server.mjs";
import { usage } from "./usage.mjs";

/**
 * @typedef {Awaited<ReturnType<typeof startProgram>>} Program
 * @typedef {Awaited<ReturnType<typeof createDatabase>>} Database
 * @typedef {Awaited<ReturnType<typeof startServer>>} Server
 */

/** What starts runs in order, what was started is stopped the other way round. */
export class Stage {
  /** @type {(() => Promise<unknown>)[]} */
  #stops = [];

  /**
   * @template {{ stop: () => Promise<unknown> }} T
   * @param {Promise<T>} starting
   */
  async start(starting) {
    const started = await starting;
    this.#stops.push(() => started.stop());
    return started;
  }

  /** @param {string} postgresUrl */
  async database(postgresUrl) {
    const database = await createDatabase(postgresUrl);
    this.#stops.push(() => database.drop());
    return database;
  }

  async stop() {
    for (const stop of this.#stops.splice(0).reverse()) await stop();
  }
}

/**
 * Gives `work` a stage, and clears it afterwards.
 *
 * @template T
 * @param {(stage: Stage) => Promise<T>} work
 */
export async function onStage(work) {
  const stage = new Stage();
  try {
    return await work(stage);
  } finally {
    await stage.stop();
  }
}

const TRUNKLINE = "subjects/trunkline.mjs";

/**
 * A server on a fresh database.
 *
 * @param {Stage} stage
 * @param {{ url: string }} postgres
 * @param {{ watched?: boolean }} [options]
 */
async function trunklinePlace(stage, postgres, { watched = false } = {}) {
  const database = await stage.database(postgres.url);
  const server = await stage.start(startServer(database.url, { watched }));
  return { url: server.url, database, server };
}

/**
 * Trunkline as one of those that are compared.
 *
 * @type {import("../peers.mjs").Contestant}
 */
export const trunkline = { subject: "trunkline", module: TRUNKLINE, prepare: trunklinePlace };

/**
 * Trunkline on a fresh database: a server, a worker, an opener.
 *
 * @param {Stage} stage
 * @param {{ url: string }} postgres
 * @param {{ concurrency?: number, callers?: number, hold?: boolean, watched?: boolean }} options
 */
export async function trunklineStack(stage, postgres, options) {
  const { concurrency = 100, callers = 1, hold = false, watched = false } = options;
  const { database, server } = await trunklinePlace(stage, postgres, { watched });
  const worker = await startWorker(stage, { module: TRUNKLINE, url: server.url, concurrency, hold });
  const opener = await startOpener(stage, { module: TRUNKLINE, url: server.url, callers });
  return { database, server, worker, opener };
}

/**
 * A subject on a fresh store: what it needs, an opener, and a worker with the subject's settings for the load.
 *
 * @param {Stage} stage
 * @param {{ url: string }} postgres
 * @param {import("../peers.mjs").Contestant} contestant
 * @param {{ load: import("../subjects/subject.mjs").Load, callers: number }} options
 */
export async function subjectStack(stage, postgres, contestant, { load, callers }) {
  const { module, prepare, settings } = contestant;
  const place = await prepare(stage, postgres);
  const config = { module, url: place.url, load, settings };
  const opener = await startOpener(stage, { ...config, callers });
  const worker = await startWorker(stage, config);
  return { ...place, opener, worker };
}

/** @param {Stage} stage */
export function startWorker(stage, config) {
  return stage.start(startProgram("worker", { module: TRUNKLINE, ...config }));
}

/** @param {Stage} stage */
export function startOpener(stage, config) {
  return stage.start(startProgram("opener", { module: TRUNKLINE, ...config }));
}

/** CPU seconds so far of each part of a stack. */
export async function cpuOf({ server, opener, worker, database }) {
  const of = async ({ pid }) => (await usage(pid)).cpuSeconds;
  return {
    server: await of(server),
    harness: await of(opener),
    worker: await of(worker),
    PostgreSQL: await database.cpuSeconds(),
  };
}
