// What a user would pick instead, each with its fastest documented settings.
import { findRedis, startRedis } from "./stage/redis.mjs";

/**
 * One of those that are compared.
 *
 * @typedef {object} Contestant
 * @property {string} subject In the report.
 * @property {string} module
 * @property {(stage: import("./stage/stack.mjs").Stage, postgres: { url: string }) => Promise<Place>} prepare Starts
 *   what keeps its calls.
 * @property {Partial<import("./subjects/subject.mjs").Settings>} [settings] Instead of those of its module.
 *
 * @typedef {object} Place
 * @property {string} url Where an opener and a worker find it.
 * @property {import("./stage/stack.mjs").Database} [database] Of Trunkline.
 * @property {import("./stage/stack.mjs").Server} [server] Of Trunkline.
 *
 * @typedef {Contestant & { name: string, needs?: string }} Peer `name`: on the command line; `needs`: what has to be
 *   on this machine.
 */

const onPostgres = (stage, postgres) => stage.database(postgres.url);
const onRedis = (appendfsync) => (stage) => stage.start(startRedis(appendfsync));

/** @type {readonly Peer[]} */
export const PEERS = [
  {
    name: "graphile-worker",
    subject: "graphile-worker",
    module: "peers/graphile-worker.mjs",
    prepare: onPostgres,
  },
  { name: "pg-boss", subject: "pg-boss", module: "peers/pg-boss.mjs", prepare: onPostgres },
  { name: "dbos", subject: "dbos", module: "peers/dbos.mjs", prepare: onPostgres },
  {
    name: "bullmq",
    subject: "bullmq, fsync always",
    module: "peers/bullmq.mjs",
    needs: "redis-server",
    prepare: onRedis("always"),
  },
  {
    name: "bullmq",
    subject: "bullmq, fsync everysec",
    module: "peers/bullmq.mjs",
    needs: "redis-server",
    prepare: onRedis("everysec"),
  },
];

/**
 * The peers that were asked for and can be run here; says of the others why not.
 *
 * @param {string[] | undefined} names Undefined: all.
 * @param {import("./report.mjs").Report} report
 */
export function choosePeers(names, report) {
  return PEERS.filter(({ name, subject, needs }) => {
    if (names !== undefined && !names.includes(name)) return false;
    if (needs !== "redis-server" || findRedis() !== undefined) return true;
    report.skip(subject, "there is no redis-server on this machine (Debian: apt-get install redis-server)");
    return false;
  });
}
