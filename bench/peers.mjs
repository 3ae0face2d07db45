// What a user would pick instead, each with its fastest documented settings.
import { findRedis, startRedis } from "./stage/redis.mjs";

/**
 * @typedef {object} Peer
 * @property {string} name On the command line.
 * @property {string} subject In the report.
 * @property {string} module
 * @property {string} [needs] What has to be on this machine.
 * @property {(stage: import("./stage/stack.mjs").Stage, postgres: { url: string }) => Promise<string>} store Starts
 *   the store that it keeps its jobs in; resolves with its URL.
 */

const onPostgres = async (stage, postgres) => (await stage.database(postgres.url)).url;
const onRedis = (appendfsync) => async (stage) => (await stage.start(startRedis(appendfsync))).url;

/** @type {readonly Peer[]} */
export const PEERS = [
  {
    name: "graphile-worker",
    subject: "graphile-worker",
    module: "peers/graphile-worker.mjs",
    store: onPostgres,
  },
  { name: "pg-boss", subject: "pg-boss", module: "peers/pg-boss.mjs", store: onPostgres },
  { name: "dbos", subject: "dbos", module: "peers/dbos.mjs", store: onPostgres },
  {
    name: "bullmq",
    subject: "bullmq, fsync always",
    module: "peers/bullmq.mjs",
    needs: "redis-server",
    store: onRedis("always"),
  },
  {
    name: "bullmq",
    subject: "bullmq, fsync everysec",
    module: "peers/bullmq.mjs",
    needs: "redis-server",
    store: onRedis("everysec"),
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
