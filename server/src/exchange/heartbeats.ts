import type { CallRef } from "../core/call.js";
import type { CallEvent } from "../core/event.js";
import { saveProgress } from "../store/calls-save.js";
import type { Database } from "../store/database.js";
import type { Applied } from "./call-writer.js";
import type { HeldClaim, Session } from "./session.js";
import type { Sessions } from "./sessions.js";

/** Progress of one claim, as a worker reports it. */
export interface Progress {
  readonly claimId: string;
  readonly progressJson: string;
}

/** What the heartbeats are given. */
export interface HeartbeatsOptions {
  readonly db: Database;
  readonly heartbeatIntervalMs: number;
  readonly sessions: Sessions;
  readonly apply: (ref: CallRef, event: CallEvent) => Promise<Applied>;
  readonly onError: (error: unknown) => void;
}

/** An offer that was neither accepted nor named for so many intervals is taken back. */
const UNHEARD_INTERVALS = 3;

/** What workers say of the claims that they hold, so that none is alive on one channel and deaf on another. */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  /**
   * A heartbeat names all claims held: naming is accepting; one that the worker had and does not name any
   * more is lost; one that it never had is taken back after three intervals.
   *
   * @returns the named claims that are not held any more.
   */
  beat(session: Session, named: readonly string[], progress: readonly Progress[]): string[] {
    const names = new Set(named);
    const lost = named.filter((claimId) => !session.held.has(claimId));
    const overdue = performance.now() - UNHEARD_INTERVALS * this.#options.heartbeatIntervalMs;
    for (const held of [...session.held.values()]) {
      if (names.has(held.id)) this.accept(session, held.id);
      else if (held.known) this.#fire(held, { type: "lease_ended", claimId: held.id });
      else if (held.offeredAt < overdue) {
        this.#fire(held, { type: "take_back", claimId: held.id, cause: "undelivered" });
      }
    }
    if (progress.length > 0) this.#keep(session, progress);
    return lost;
  }

  /** The worker has the claim; an `at_most_once` one is confirmed once that is stored. */
  accept(session: Session, claimId: string): void {
    const held = session.held.get(claimId);
    if (held === undefined || held.known) return;
    held.known = true;
    if (held.call.policy.mode === "retry") return;
    this.#options.apply(held.call, { type: "accept", claimId }).then(
      ({ verdict }) => {
        if (verdict.ok) session.stream?.confirm(claimId);
        else this.#options.sessions.drop(held, "lease_lost");
      },
      (error: unknown) => {
        // Not stored for now: the next heartbeat that names it tries again.
        held.known = false;
        this.#options.onError(error);
      },
    );
  }

  #fire(held: HeldClaim, event: CallEvent): void {
    this.#options.apply(held.call, event).catch(this.#options.onError);
  }

  #keep(session: Session, progress: readonly Progress[]): void {
    const items = new Map<string, { ref: CallRef; claimId: string; progressJson: string }>();
    for (const { claimId, progressJson } of progress) {
      const held = session.held.get(claimId);
      if (held !== undefined) items.set(claimId, { ref: held.call, claimId, progressJson });
    }
    if (items.size === 0) return;
    saveProgress(this.#options.db, [...items.values()]).catch(this.#options.onError);
  }
}
