import type { CallRef, ClaimedCall } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { CallEvent } from "../core/event.js";
import { saveProgress } from "../store/calls-save.js";
import type { Database } from "../store/database.js";
import type { SignOfLife } from "../store/sessions.js";
import { Batcher } from "./batcher.js";
import type { Applied } from "./call-writer.js";
import type { HeldClaim, Session } from "./session.js";
import type { Sessions } from "./sessions.js";

/** Progress of one claim, as a worker reports it. */
export interface Progress {
  readonly claimId: string;
  readonly progressJson: string;
}

interface StoredProgress extends Progress {
  readonly ref: CallRef;
}

/** What a heartbeat that came without a stream is told. */
export interface Beaten {
  /** Named `at_most_once` claims whose acceptance is stored. */
  readonly confirmed: readonly string[];
  /** Named claims that are not held any more. */
  readonly lost: readonly string[];
}

/** What the heartbeats are given. */
export interface HeartbeatsOptions {
  readonly db: Database;
  readonly heartbeatIntervalMs: number;
  readonly sessions: Sessions;
  readonly apply: (ref: CallRef, event: CallEvent) => Promise<Applied>;
  /** Told of what a worker said of a call, once it is stored. */
  readonly onProgress: (ref: CallRef) => void;
  readonly onError: (error: unknown) => void;
}

/** An offer that was neither accepted nor named for so many intervals is taken back. */
const UNHEARD_INTERVALS = 3;
const ROUGH_BYTES = 100;
const PROGRESS_WAITING = 20_000;
const PROGRESS_WAITING_BYTES = 16 * 1024 * 1024;

/** What workers say of the claims that they hold, so that none is alive on one channel and deaf on another. */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #progress: Batcher<StoredProgress, true>;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
    this.#progress = new Batcher({
      write: async (items) => {
        await saveProgress(options.db, latest(items));
        for (const { ref } of items) options.onProgress(ref);
        return items.map(() => true);
      },
      sizeOf: ({ progressJson }) => ROUGH_BYTES + progressJson.length,
      maxInFlight: 1,
      // Only for display: what cannot be stored now is out of date soon.
      resendMs: 0,
      maxWaiting: PROGRESS_WAITING,
      maxWaitingBytes: PROGRESS_WAITING_BYTES,
    });
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
    if (progress.length > 0) this.#keep(progress, (claimId) => session.held.get(claimId)?.call);
    return lost;
  }

  /**
   * A heartbeat that came without a stream, to whatever node: the database says what is held. Naming is accepting
   * here too. What it does not name stays as it is, since requests may overtake each other: the next hello, which is
   * numbered, settles that.
   *
   * @throws TrunklineError NOT_FOUND where there is no such session
   */
  async beatApart(
    sign: SignOfLife,
    named: readonly string[],
    progress: readonly Progress[],
  ): Promise<Beaten> {
    const heard = await this.#options.sessions.heard(sign);
    if (heard.type === "unknown") {
      throw new TrunklineError(
        "NOT_FOUND",
        `there is no session ${JSON.stringify(sign.sessionId)}; ClaimCalls and Work make one`,
        { metadata: { field: "session_id" } },
      );
    }
    const held = new Map<string, ClaimedCall>();
    if (heard.type === "ok") {
      for (const call of heard.claims) if (call.state === "claimed") held.set(call.claim.id, call);
    }
    const confirmed: string[] = [];
    const lost: string[] = [];
    await Promise.all(
      [...new Set(named)].map(async (claimId) => {
        const call = held.get(claimId);
        if (call === undefined) lost.push(claimId);
        else if (call.policy.mode === "at_most_once")
          ((await this.#isAccepted(call)) ? confirmed : lost).push(claimId);
      }),
    );
    if (progress.length > 0) this.#keep(progress, (claimId) => held.get(claimId));
    return { confirmed, lost };
  }

  /** Whether a claim's acceptance is stored, now at the latest. */
  async #isAccepted(call: ClaimedCall): Promise<boolean> {
    if (call.claim.accepted) return true;
    const { verdict } = await this.#options.apply(call, { type: "accept", claimId: call.claim.id });
    return verdict.ok;
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

  #keep(progress: readonly Progress[], held: (claimId: string) => ClaimedCall | undefined): void {
    for (const { claimId, progressJson } of progress) {
      const ref = held(claimId);
      if (ref === undefined) continue;
      this.#progress.push({ ref, claimId, progressJson }).catch((error: unknown) => {
        if (!isPassing(error)) this.#options.onError(error);
      });
    }
  }
}

/** One row may be in a statement once: the last word counts. */
function latest(items: readonly StoredProgress[]): StoredProgress[] {
  return [...new Map(items.map((item) => [item.claimId, item])).values()];
}

function isPassing(error: unknown): boolean {
  return error instanceof TrunklineError && (error.reason === "UNAVAILABLE" || error.reason === "OVERLOADED");
}
