import type { Call } from "../core/call.js";
import type { Database } from "../store/database.js";
import { sendHint, type Hint } from "../store/notify.js";
import { aliveNodes } from "../store/sessions.js";
import { formatCallId } from "../core/name.js";

/** What the hints are given. */
export interface HintsOptions {
  readonly db: Database;
  readonly nodeId: string;
  /** The heartbeat interval, by which nodes count as alive. */
  readonly intervalMs: number;
  readonly onError: (error: unknown) => void;
}

/** Above so many, "look at everything" is shorter. */
const MOST_ITEMS = 200;

/**
 * Tells other nodes, where there are any, what was queued and what ended here: one statement at a time, and
 * what comes meanwhile goes with the next. Nothing waits for it.
 */
export class Hints {
  readonly #options: HintsOptions;
  #queued = new Map<string, readonly [number, string]>();
  #ended = new Set<string>();
  #sending = false;
  /** Whether another node is alive; hints to nobody are not sent. */
  othersAlive = false;

  constructor(options: HintsOptions) {
    this.#options = options;
  }

  /**
   * Tells the other nodes, if there are any, that this one is here: they send hints from now on, and do not find
   * out by their next look only.
   */
  async greet(): Promise<void> {
    const { db, nodeId, intervalMs } = this.#options;
    this.othersAlive = (await aliveNodes(db, intervalMs)) > 1;
    if (this.othersAlive) await sendHint(db, { node: nodeId, queued: [], ended: [] });
  }

  /** A call was queued that no session of this node could take. */
  queued({ projectId, tool }: Pick<Call, "projectId" | "tool">): void {
    if (!this.othersAlive) return;
    this.#queued.set(`${String(projectId)}:${tool}`, [projectId, tool]);
    this.#wake();
  }

  /** A call has ended. */
  ended(call: Pick<Call, "runId" | "seq">): void {
    if (!this.othersAlive) return;
    this.#ended.add(formatCallId(call));
    this.#wake();
  }

  #wake(): void {
    if (this.#sending) return;
    this.#sending = true;
    setImmediate(() => void this.#send());
  }

  async #send(): Promise<void> {
    const hint: Hint = {
      node: this.#options.nodeId,
      queued: this.#queued.size > MOST_ITEMS ? null : [...this.#queued.values()],
      ended: this.#ended.size > MOST_ITEMS ? null : [...this.#ended],
    };
    this.#queued = new Map();
    this.#ended = new Set();
    try {
      await sendHint(this.#options.db, hint);
    } catch (error) {
      this.#options.onError(error);
    }
    this.#sending = false;
    if (this.#queued.size + this.#ended.size > 0) this.#wake();
  }
}
