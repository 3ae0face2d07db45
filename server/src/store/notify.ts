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
  /** How often the connection is tried. Default 5 s; it is replaced when a try stays unanswered for twice as long. */
  readonly probeMs?: number;
}

const DEFAULT_PROBE_MS = 5_000;
const RECONNECT_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
const FIRST_PROBE_MS = 3_000;
/** How long a probe may take before what others send is no longer relied on. */
const PROBE_GRACE_MS = 1_000;

/**
 * Listens for hints on a connection of its own. A connection can die without a word, and a pooler can swallow
 * what it should deliver, so it sends itself a probe now and then; when one does not come back, it connects
 * anew, and what may have been missed is read.
 */
export class HintListener {
  readonly #options: Required<HintListenerOptions>;
  #client: pg.Client | null = null;
  #timer: NodeJS.Timeout | null = null;
  #unanswered = 0;
  #answeredAt = -Infinity;
  #onProbe: (() => void) | null = null;
  #stopped = false;

  constructor(options: HintListenerOptions) {
    this.#options = { probeMs: DEFAULT_PROBE_MS, ...options };
  }

  /** Whether what others send arrives: the last probe came back, and the next is not overdue. */
  get hears(): boolean {
    if (this.#client === null) return false;
    return performance.now() - this.#answeredAt <= this.#options.probeMs + PROBE_GRACE_MS;
  }

  /**
   * Starts listening, and keeps at it until {@link stop}.
   *
   * @returns whether hints arrive: false behind a pooler in transaction mode, where nothing is listened to.
   */
  async start(): Promise<boolean> {
    let client: pg.Client | null;
    let arrives = true;
    try {
      client = await this.#connect();
      arrives = await this.#hearsOthers();
    } catch (error) {
      this.#options.onError(error);
      client = this.#client;
      if (client === null) this.#later();
    }
    if (!arrives) await this.stop();
    else if (client !== null) this.#probe(client);
    return arrives;
  }

  /**
   * Sends the first probe on another connection. On the same one it would tell nothing: a pooler may well give
   * both statements to one connection of its own, and that one hears itself.
   */
  async #hearsOthers(): Promise<boolean> {
    const other = await connectTo(this.#options.url);
    let timer: NodeJS.Timeout | undefined;
    try {
      const answered = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), FIRST_PROBE_MS);
        this.#onProbe = () => resolve(true);
      });
      await other.query(NOTIFY.text, [this.#ownHint()]);
      return await answered;
    } finally {
      clearTimeout(timer);
      await other.end().catch(() => undefined);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = null;
    if (client !== null) await endWithin(client, RECONNECT_MS);
  }

  /** The connection that listens from now on; null when it is no longer wanted. */
  async #connect(): Promise<pg.Client | null> {
    const client = await connectTo(this.#options.url);
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, new Error("the listening connection was closed")));
    client.on("notification", ({ payload }) => this.#heard(payload ?? ""));
    try {
      await client.query(`LISTEN ${CHANNEL}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    if (this.#stopped) {
      await client.end().catch(() => undefined);
      return null;
    }
    this.#client = client;
    this.#unanswered = 0;
    this.#answeredAt = -Infinity;
    this.#options.onGap();
    return client;
  }

  /** What only this node takes for its own. */
  #ownHint(): string {
    return JSON.stringify({ node: this.#options.nodeId });
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
      this.#answeredAt = performance.now();
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
    // A second statement on a connection that has not finished the first could not tell more.
    if (this.#unanswered++ === 0) {
      client.query(NOTIFY.text, [this.#ownHint()]).catch((error: unknown) => this.#lost(client, error));
    }
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
        this.#connect().then(
          (client) => {
            if (client !== null) this.#probe(client);
          },
          (error: unknown) => {
            this.#options.onError(error);
            this.#later();
          },
        );
      },
      RECONNECT_MS * (0.5 + Math.random()),
    );
    this.#timer.unref();
  }
}

async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: await findPrimary(url),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "trunkline listener",
    keepAlive: true,
  });
  // Without a listener an error of the connection would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  return client;
}

/** Closes a connection; one that hangs is not waited for. */
async function endWithin(client: pg.Client, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([client.end().catch(() => undefined), over]);
  clearTimeout(timer);
}
