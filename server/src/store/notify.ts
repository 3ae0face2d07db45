import pg from "pg";
import type { Database } from "./database.js";
import { findPrimary } from "./servers.js";
import { statement } from "./statement.js";

/** PostgreSQL takes 7,999 bytes; above this a hint says "read all" instead. */
const MOST_BYTES = 7_000;
const CHANNEL = "trunkline";

const NOTIFY = statement("notify", `SELECT pg_notify('${CHANNEL}', $1)`);

/**
 * What one node tells the others after a commit. A hint, never data: whoever gets it reads for itself, and
 * whoever misses it reads a little later.
 */
export interface Hint {
  /** The node that sent it. */
  readonly node: string;
  /** Queues that have got a call: project and tool. Null: look at all. */
  readonly queued: readonly (readonly [projectId: number, tool: string])[] | null;
  /** Ids of calls that have ended. Null: look at all. */
  readonly ended: readonly string[] | null;
}

/** Sends a hint; one that would be too large says to look at everything. */
export async function sendHint(db: Database, hint: Hint): Promise<void> {
  const text = JSON.stringify(hint);
  const fits = Buffer.byteLength(text) <= MOST_BYTES;
  await db.query(NOTIFY, [fits ? text : JSON.stringify({ node: hint.node, queued: null, ended: null })]);
}

/** What a {@link HintListener} is given. */
export interface HintListenerOptions {
  readonly url: string;
  /** This node, whose own hints are passed over. */
  readonly nodeId: string;
  readonly onHint: (hint: Hint) => void;
  /** Hints may have been missed: time to read everything. */
  readonly onGap: () => void;
  readonly onError: (error: unknown) => void;
  /** How often the connection is tried. Default 5 s; two silent tries replace it. */
  readonly probeMs?: number;
}

const DEFAULT_PROBE_MS = 5_000;
const RECONNECT_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
const FIRST_PROBE_MS = 3_000;

/**
 * Listens for hints on a connection of its own. A connection can die without a word, and a pooler can swallow
 * what it should deliver, so it sends itself a probe now and then; when two do not come back, it connects
 * anew, and what may have been missed is read.
 */
export class HintListener {
  readonly #options: Required<HintListenerOptions>;
  #client: pg.Client | null = null;
  #timer: NodeJS.Timeout | null = null;
  #unanswered = 0;
  #onProbe: (() => void) | null = null;
  #stopped = false;

  constructor(options: HintListenerOptions) {
    this.#options = { probeMs: DEFAULT_PROBE_MS, ...options };
  }

  /**
   * Starts listening, and keeps at it until {@link stop}.
   *
   * @returns whether hints arrive: false behind a pooler in transaction mode, where nothing is listened to.
   */
  async start(): Promise<boolean> {
    const answered = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), FIRST_PROBE_MS);
      this.#onProbe = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
    try {
      await this.#connect();
    } catch (error) {
      this.#options.onError(error);
      this.#later();
      return true;
    }
    if (await answered) return true;
    await this.stop();
    return false;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = null;
    // A connection that hangs is not waited for.
    if (client !== null) await Promise.race([client.end().catch(() => undefined), pause(RECONNECT_MS)]);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: await findPrimary(this.#options.url),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      application_name: "trunkline listener",
      keepAlive: true,
    });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, new Error("the listening connection was closed")));
    client.on("notification", ({ payload }) => this.#heard(payload ?? ""));
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    if (this.#stopped) {
      await client.end().catch(() => undefined);
      return;
    }
    this.#client = client;
    this.#unanswered = 0;
    this.#options.onGap();
    this.#probe(client);
  }

  #heard(payload: string): void {
    let hint: Partial<Hint>;
    try {
      hint = JSON.parse(payload) as Partial<Hint>;
    } catch {
      // Not ours: whoever may send on the channel may send anything.
      return;
    }
    if (hint.node === this.#options.nodeId) {
      this.#unanswered = 0;
      this.#onProbe?.();
      return;
    }
    if (typeof hint.node !== "string") return;
    this.#options.onHint({ node: hint.node, queued: hint.queued ?? null, ended: hint.ended ?? null });
  }

  #probe(client: pg.Client): void {
    if (this.#stopped || client !== this.#client) return;
    if (this.#unanswered >= 2) {
      this.#lost(client, new Error("the listening connection no longer delivers"));
      return;
    }
    this.#unanswered++;
    const probe = JSON.stringify({ node: this.#options.nodeId });
    client.query(NOTIFY.text, [probe]).catch((error: unknown) => this.#lost(client, error));
    this.#timer = setTimeout(() => this.#probe(client), this.#options.probeMs);
    this.#timer.unref();
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#stopped || client !== this.#client) return;
    this.#client = null;
    this.#options.onError(error);
    // A black hole would keep `end` waiting for ever.
    void client.end().catch(() => undefined);
    this.#later();
  }

  #later(): void {
    if (this.#stopped) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.#connect().catch((error: unknown) => {
          this.#options.onError(error);
          this.#later();
        });
      },
      RECONNECT_MS * (0.5 + Math.random()),
    );
    this.#timer.unref();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
