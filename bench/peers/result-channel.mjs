// How a result comes back from a queue that brings none back: by NOTIFY, many at once. For the peers on PostgreSQL.
import pg from "pg";

const MAX_NOTIFY_BYTES = 7_500;
const ID_BYTES = 40;
const IDS_AT_ONCE = Math.floor(MAX_NOTIFY_BYTES / ID_BYTES);

/**
 * Listens on a channel whose notifications are lists of ids.
 *
 * @param {string} url
 * @param {string} channel
 * @param {(ids: string[]) => void} onIds
 */
export async function listenForIds(url, channel, onIds) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  client.on("notification", ({ payload }) => onIds(payload === "" ? [] : payload.split(",")));
  await client.query(`LISTEN ${channel}`);
  return client;
}

/** Tells ids on a channel: those of one turn of the event loop, and those that come while it tells, together. */
export class IdTeller {
  #client;
  #channel;
  /** @type {string[]} */
  #ids = [];
  #telling = false;

  constructor(client, channel) {
    this.#client = client;
    this.#channel = channel;
  }

  /** @param {string} id */
  tell(id) {
    this.#ids.push(id);
    if (this.#telling) return;
    this.#telling = true;
    setImmediate(() => void this.#flush());
  }

  async #flush() {
    while (this.#ids.length > 0) {
      const payload = this.#ids.splice(0, IDS_AT_ONCE).join(",");
      const values = [this.#channel, payload];
      await this.#client.query({ name: "notify", text: "SELECT pg_notify($1, $2)", values });
    }
    this.#telling = false;
  }
}

/** Promises by id, for results that may come before anybody waits for them. */
export class Results {
  /** @type {Map<string, (value?: unknown) => void>} */
  #waiting = new Map();
  /** @type {Set<string>} */
  #early = new Set();

  /** @param {string[]} ids */
  came(ids) {
    for (const id of ids) {
      const resolve = this.#waiting.get(id);
      if (resolve === undefined) this.#early.add(id);
      else {
        this.#waiting.delete(id);
        resolve();
      }
    }
  }

  /** @param {string} id */
  of(id) {
    if (this.#early.delete(id)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
    });
  }
}
