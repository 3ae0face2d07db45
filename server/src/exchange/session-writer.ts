import type { Database } from "../store/database.js";
import {
  detachSessions,
  hearSessions,
  helloSessions,
  type Detachment,
  type Heard,
  type Hello,
  type HelloOutcome,
  type SignOfLife,
} from "../store/sessions.js";
import { Batcher } from "./batcher.js";

/** Hellos of one transaction, which holds the rows of all of them. */
const HELLO_ITEMS = 200;
const HELLO_BYTES = 500;
const SIGN_BYTES = 100;
const END_BYTES = 50;

/**
 * Writes what becomes of sessions, many at once: when a node or its database comes back, all its workers do, and
 * each by itself would take a transaction.
 */
export class SessionWriter {
  readonly #hellos: Batcher<Hello, HelloOutcome>;
  readonly #signs: Batcher<SignOfLife, Heard>;
  readonly #ends: Batcher<Detachment, true>;

  constructor(db: Database) {
    this.#hellos = new Batcher({
      write: (hellos) => helloSessions(db, hellos),
      sizeOf: ({ tools }) => HELLO_BYTES + tools.length * END_BYTES,
      maxItems: HELLO_ITEMS,
      // One at a time: renewals use the same few connections, and must not wait for long.
      maxInFlight: 1,
    });
    this.#signs = new Batcher({
      write: (signs) => hearSessions(db, signs),
      sizeOf: () => SIGN_BYTES,
      maxInFlight: 1,
    });
    this.#ends = new Batcher({
      write: async (items) => {
        await detachSessions(db, items);
        return items.map(() => true);
      },
      sizeOf: () => END_BYTES,
      maxInFlight: 1,
      // A session that stays attached to a node that lives cannot be taken over elsewhere.
      resendMs: Infinity,
    });
  }

  /**
   * Moves a session to this node.
   *
   * @throws TrunklineError UNAVAILABLE where the database cannot be reached
   */
  hello(hello: Hello): Promise<HelloOutcome> {
    return this.#hellos.push(hello);
  }

  /**
   * Notes that a session was heard of, whichever node it said hello to.
   *
   * @throws TrunklineError UNAVAILABLE where the database cannot be reached
   */
  heard(sign: SignOfLife): Promise<Heard> {
    return this.#signs.push(sign);
  }

  /** Marks a session whose stream has ended; where the database is away, once it is back. */
  async ended(detachment: Detachment): Promise<void> {
    await this.#ends.push(detachment);
  }
}
