import { once } from "node:events";
import { connect, createServer } from "node:net";

/** @typedef {"up" | "down"} Direction `up`: to the server; `down`: from it. */

/**
 * @typedef {object} Target
 * @property {string} name
 * @property {number} port
 */

/**
 * What a network does to connections while it lasts, to those that are there and those that come.
 *
 * @typedef {object} Trouble
 * @property {(target: string) => boolean} concerns
 * @property {ReadonlySet<Direction>} holds Nothing passes in these directions, not even a connection's end.
 * @property {number} delayMs What passes does so that much later.
 */

/**
 * @typedef {object} Link
 * @property {string} target
 * @property {import("node:net").Socket} client
 * @property {import("node:net").Socket} server
 * @property {Map<Direction, Array<Buffer | "end">>} waiting What is held or late, in order.
 * @property {Set<Direction>} scheduled Directions in which something late is on its way.
 * @property {boolean} halfGone One side has gone, and the other was not told.
 */

/** No more than this waits inside a gate for each direction of a connection; then its sender waits. */
const MOST_WAITING = 1_000;

/**
 * A network between one client and the servers it may reach: each connection goes to one of them, chosen at
 * random among those that accept it, as a balancer does.
 */
export class Gate {
  #listener;
  #targets;
  #random;
  /** @type {Set<Link>} */
  #links = new Set();
  /** @type {Set<Trouble>} */
  #troubles = new Set();

  /**
   * @param {object} options
   * @param {string} options.name
   * @param {() => readonly Target[]} options.targets
   * @param {import("../random.mjs").Random} options.random
   */
  constructor({ name, targets, random }) {
    this.name = name;
    this.#targets = targets;
    this.#random = random;
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      client.on("error", () => undefined);
      void this.#accept(client);
    });
  }

  /** Listens on a free port. */
  async open() {
    this.#listener.listen(0, "127.0.0.1");
    await once(this.#listener, "listening");
    return this;
  }

  get port() {
    const address = this.#listener.address();
    if (address === null || typeof address === "string") throw new Error(`gate ${this.name}: not open`);
    return address.port;
  }

  async close() {
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
    this.#listener.close();
    await once(this.#listener, "close");
  }

  /**
   * Ends connections: `rst` at once, with an error on both sides; `fin` in order. What waits is lost.
   *
   * @param {"rst" | "fin"} how
   * @param {(target: string) => boolean} concerns
   * @returns {number} How many.
   */
  cut(how, concerns) {
    let count = 0;
    for (const link of [...this.#links]) {
      if (!concerns(link.target)) continue;
      count++;
      this.#links.delete(link);
      for (const socket of [link.client, link.server]) {
        if (how === "rst") socket.resetAndDestroy();
        else {
          socket.end();
          socket.resume();
        }
      }
    }
    return count;
  }

  /** @param {Trouble} trouble */
  begin(trouble) {
    this.#troubles.add(trouble);
    return this.#affected(trouble).length;
  }

  /**
   * Ends a trouble: what was held goes on, or, with `lose`, its connections end and it is lost.
   *
   * @param {Trouble} trouble
   * @param {boolean} lose
   */
  end(trouble, lose) {
    this.#troubles.delete(trouble);
    if (lose) this.cut("rst", trouble.concerns);
    else for (const link of this.#affected(trouble)) this.#letGo(link);
  }

  /** Ends all troubles, and lets everything go on. */
  heal() {
    this.#troubles.clear();
    for (const link of [...this.#links]) this.#letGo(link);
  }

  /** @param {Trouble} trouble */
  #affected({ concerns }) {
    return [...this.#links].filter(({ target }) => concerns(target));
  }

  /** @param {import("node:net").Socket} client */
  async #accept(client) {
    for (const { name, port } of this.#random.shuffle(this.#targets())) {
      const server = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
      server.on("error", () => undefined);
      const connected = await Promise.race([
        once(server, "connect").then(
          () => true,
          () => false,
        ),
        once(server, "close").then(() => false),
      ]);
      if (!connected) continue;
      if (client.destroyed) {
        server.destroy();
        return;
      }
      this.#join({
        ...{ target: name, client, server, halfGone: false },
        waiting: new Map([
          ["up", []],
          ["down", []],
        ]),
        scheduled: new Set(),
      });
      return;
    }
    client.resetAndDestroy();
  }

  /** @param {Link} link */
  #join(link) {
    this.#links.add(link);
    for (const direction of /** @type {const} */ (["up", "down"])) {
      const [from, to] = ends(link, direction);
      from.on("data", (bytes) => this.#pass(link, direction, bytes));
      from.on("end", () => this.#pass(link, direction, "end"));
      to.on("drain", () => from.resume());
      from.on("close", () => {
        if (!this.#links.has(link)) return;
        if (this.#isHeld(link)) link.halfGone = true;
        else this.#drop(link);
      });
    }
  }

  /**
   * @param {Link} link
   * @param {Direction} direction
   * @param {Buffer | "end"} piece
   */
  #pass(link, direction, piece) {
    if (!this.#links.has(link)) return;
    const waiting = link.waiting.get(direction) ?? [];
    const { held, delayMs } = this.#state(link, direction);
    if (waiting.length === 0 && !held && delayMs === 0) {
      write(link, direction, piece);
      return;
    }
    waiting.push(piece);
    if (waiting.length > MOST_WAITING) ends(link, direction)[0].pause();
    if (!held) this.#later(link, direction, delayMs);
  }

  /**
   * @param {Link} link
   * @param {Direction} direction
   * @param {number} delayMs
   */
  #later(link, direction, delayMs) {
    if (link.scheduled.has(direction)) return;
    link.scheduled.add(direction);
    setTimeout(() => {
      link.scheduled.delete(direction);
      if (this.#links.has(link) && !this.#state(link, direction).held) this.#flush(link, direction);
    }, delayMs);
  }

  /**
   * @param {Link} link
   * @param {Direction} direction
   */
  #flush(link, direction) {
    const waiting = link.waiting.get(direction)?.splice(0) ?? [];
    for (const piece of waiting) write(link, direction, piece);
    ends(link, direction)[0].resume();
  }

  /** @param {Link} link */
  #letGo(link) {
    if (this.#isHeld(link)) return;
    this.#flush(link, "up");
    this.#flush(link, "down");
    if (link.halfGone) this.#drop(link);
  }

  /** @param {Link} link */
  #drop(link) {
    this.#links.delete(link);
    link.client.destroy();
    link.server.destroy();
  }

  /** @param {Link} link */
  #isHeld(link) {
    return this.#state(link, "up").held || this.#state(link, "down").held;
  }

  /**
   * @param {Link} link
   * @param {Direction} direction
   */
  #state({ target }, direction) {
    let held = false;
    let delayMs = 0;
    for (const trouble of this.#troubles) {
      if (!trouble.concerns(target)) continue;
      held ||= trouble.holds.has(direction);
      delayMs = Math.max(delayMs, trouble.delayMs);
    }
    return { held, delayMs };
  }
}

/**
 * @param {Link} link
 * @param {Direction} direction
 * @param {Buffer | "end"} piece
 */
function write(link, direction, piece) {
  const [from, to] = ends(link, direction);
  if (piece === "end") to.end();
  else if (!to.destroyed && to.writable && !to.write(piece)) from.pause();
}

/**
 * @param {Link} link
 * @param {Direction} direction
 * @returns {[from: import("node:net").Socket, to: import("node:net").Socket]}
 */
function ends({ client, server }, direction) {
  return direction === "up" ? [client, server] : [server, client];
}
