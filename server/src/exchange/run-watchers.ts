import type { Call, CallRef } from "../core/call.js";
import { loadRecords } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import type { CallRecord } from "../store/rows.js";
import { loadRuns, type RunRecord, type RunRef } from "../store/runs.js";
import { LAST_SEQ, loadSmallRecords, lookAtRuns, type ReadMark, type SeenRun } from "../store/run-watch.js";
import { formatCallId } from "../core/name.js";
import { SharedReads } from "./shared-reads.js";

/** How a watched run stands as a whole. */
export type RunStanding = Omit<SeenRun, "calls">;

/** Somebody who watches a run. Is told which calls changed, and reads them when there is room. */
export interface RunWatcher {
  /**
   * A call may have changed.
   *
   * @param version what it has at least; null: it may have changed without one
   */
  callChanged(seq: number, version: number | null): void;
  /** All that was committed by the standing's mark has been told of. Null: there is no such run any more. */
  runSeen(standing: RunStanding | null): void;
}

interface Watched {
  readonly run: RunRef;
  readonly watchers: Set<RunWatcher>;
  /** Resolves once there is a mark. */
  begun: Promise<void>;
  mark: ReadMark | null;
  /** Whether something was told of since the last look: a new one moves the watchers' cursors on. */
  moved: boolean;
  lookedAt: number;
}

/** Runs that one statement looks at. */
const CHUNK = 500;
/** A lone node tells its watchers everything itself, but where a commit's reply was lost. */
const LONE_LOOK_MS = 10_000;
/** Looks at large runs take long: they may take a fifth of one connection's time. */
const PAUSES = 4;
const SMALL_READS = 200;
const LARGE_READS = 4;

/**
 * Who watches which run, in memory alone. What this node commits is told at once; what others do is found by looks,
 * one statement for all watched runs, however many watch them. Where nobody watches it costs nothing.
 */
export class RunWatchers {
  readonly #db: Database;
  readonly #onError: (error: unknown) => void;
  readonly #runs = new Map<string, Watched>();
  readonly #records: SharedReads<RunRef, RunRecord>;
  readonly #small: SharedReads<CallRef, CallRecord>;
  readonly #large: SharedReads<CallRef, CallRecord>;
  /** Those that the next round looks at. */
  #wanted = new Set<Watched>();
  #timer: NodeJS.Timeout | null = null;
  #isLooking = false;
  #restsUntil = 0;
  #stopped = false;

  constructor(db: Database, onError: (error: unknown) => void) {
    this.#db = db;
    this.#onError = onError;
    const ofCalls = { keyOf: formatCallId, laneOf: ({ runId }: CallRef) => runId };
    this.#small = new SharedReads({
      read: (refs) => loadSmallRecords(db, refs),
      maxItems: SMALL_READS,
      ...ofCalls,
    });
    this.#large = new SharedReads({
      read: (refs) => loadRecords(db, refs),
      maxItems: LARGE_READS,
      ...ofCalls,
    });
    this.#records = new SharedReads({
      read: (refs) => loadRuns(db, refs),
      maxItems: SMALL_READS,
      keyOf: ({ id }) => id,
      laneOf: ({ id }) => id,
    });
  }

  /** Runs that somebody watches. */
  get size(): number {
    return this.#runs.size;
  }

  /**
   * Registers at once; resolves when whatever commits from then on is told of. Leave in any case.
   *
   * @throws TrunklineError UNAVAILABLE, or the database's error
   */
  async join({ projectId, id }: RunRef, watcher: RunWatcher): Promise<void> {
    let watched = this.#runs.get(id);
    if (watched === undefined) {
      const run = { projectId, id };
      watched = { run, watchers: new Set(), begun: Promise.resolve(), mark: null, moved: false, lookedAt: 0 };
      watched.begun = this.#begin(watched);
      this.#runs.set(id, watched);
    }
    watched.watchers.add(watcher);
    await watched.begun;
  }

  leave(runId: string, watcher: RunWatcher): void {
    const watched = this.#runs.get(runId);
    watched?.watchers.delete(watcher);
    if (watched?.watchers.size === 0) this.#forget(watched);
  }

  /** A call was opened or has changed, and this is known to be committed. */
  callChanged({ runId, seq, version }: Pick<Call, "runId" | "seq" | "version">): void {
    if (this.#runs.size > 0) this.#tell(runId, seq, version);
  }

  /** A worker's word on a call was stored, which counts no version. */
  progressed({ runId, seq }: Pick<CallRef, "runId" | "seq">): void {
    if (this.#runs.size > 0) this.#tell(runId, seq, null);
  }

  /** The run has ended, or the last of its calls. */
  runChanged(runId: string): void {
    const watched = this.#runs.get(runId);
    if (watched !== undefined) this.#look([watched]);
  }

  /** Another node says which calls have ended there; null: any. */
  heard(ended: readonly string[] | null): void {
    if (this.#runs.size === 0) return;
    const runIds = ended?.map((id) => id.slice(0, id.indexOf("/")));
    this.#look(runIds === undefined ? this.#runs.values() : runIds.flatMap((id) => this.#runs.get(id) ?? []));
  }

  /** Time for a look at what was done elsewhere, and for the cursors of what was done here. */
  poll(othersAlive: boolean): void {
    const now = performance.now();
    const isDue = ({ moved, lookedAt }: Watched): boolean =>
      othersAlive || moved || now - lookedAt >= LONE_LOOK_MS;
    if (this.#runs.size > 0) this.#look([...this.#runs.values()].filter(isDue));
  }

  /** A run as it stands; null where there is none. */
  run(ref: RunRef): Promise<RunRecord | null> {
    return this.#records.get(ref);
  }

  /** A call as it stands; null where there is none, or one that is large: see {@link large}. */
  small(ref: CallRef): Promise<CallRecord | null> {
    return this.#small.get(ref);
  }

  /** A call as it stands, which may have some mebibytes; null where there is none. */
  large(ref: CallRef): Promise<CallRecord | null> {
    return this.#large.get(ref);
  }

  /** Looks no more, and leaves no timer behind. */
  stop(): void {
    this.#stopped = true;
    this.#wanted.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #tell(runId: string, seq: number, version: number | null): void {
    const watched = this.#runs.get(runId);
    if (watched === undefined) return;
    watched.moved = true;
    for (const watcher of watched.watchers) watcher.callChanged(seq, version);
  }

  /** The first mark: its watchers read what was before by themselves. */
  async #begin(watched: Watched): Promise<void> {
    watched.lookedAt = performance.now();
    try {
      const look = { ...watched.run, since: null, after: LAST_SEQ };
      const [seen] = await lookAtRuns(this.#db, [look], null);
      watched.mark = seen?.mark ?? null;
    } catch (error) {
      // Whoever comes next tries for themselves.
      this.#forget(watched);
      throw error;
    }
  }

  #forget(watched: Watched): void {
    this.#wanted.delete(watched);
    const { id } = watched.run;
    if (this.#runs.get(id) === watched) this.#runs.delete(id);
  }

  #look(runs: Iterable<Watched>): void {
    for (const watched of runs) this.#wanted.add(watched);
    if (this.#wanted.size === 0 || this.#isLooking || this.#timer !== null || this.#stopped) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        void this.#round();
      },
      Math.max(0, this.#restsUntil - performance.now()),
    );
    this.#timer.unref();
  }

  async #round(): Promise<void> {
    const runs = [...this.#wanted];
    this.#wanted = new Set();
    this.#isLooking = true;
    const begunAt = performance.now();
    for (let start = 0; start < runs.length; start += CHUNK) {
      const chunk = runs.slice(start, start + CHUNK);
      try {
        await this.#lookAt(chunk);
      } catch (error) {
        // The next poll tries again.
        for (const watched of chunk) watched.moved = true;
        this.#onError(error);
      }
    }
    const now = performance.now();
    this.#restsUntil = now + PAUSES * (now - begunAt);
    this.#isLooking = false;
    this.#look([]);
  }

  async #lookAt(runs: readonly Watched[]): Promise<void> {
    for (const watched of runs) {
      watched.moved = false;
      watched.lookedAt = performance.now();
    }
    // Those without a mark have not begun.
    const begun = runs.flatMap((watched) =>
      watched.mark === null ? [] : [{ watched, since: watched.mark }],
    );
    const looks = begun.map(({ watched, since }) => ({ ...watched.run, since, after: 0 }));
    if (looks.length === 0) return;
    const seen = await lookAtRuns(this.#db, looks, null);
    begun.forEach(({ watched }, index) => {
      tellSeen(watched, seen[index] ?? null);
    });
  }
}

function tellSeen(watched: Watched, seen: SeenRun | null): void {
  if (seen === null) {
    for (const watcher of [...watched.watchers]) watcher.runSeen(null);
    return;
  }
  const { calls, ...standing } = seen;
  watched.mark = standing.mark;
  for (const watcher of [...watched.watchers]) {
    // A look does not tell whether it was its progress that changed.
    for (const { seq, version, hasProgress } of calls) watcher.callChanged(seq, hasProgress ? null : version);
    watcher.runSeen(standing);
  }
}
