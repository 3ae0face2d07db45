import { v7 as uuidv7 } from "uuid";
import { TrunklineError } from "../core/error.js";
import { reaches, type Scope } from "../core/scope.js";
import type { Database } from "../store/database.js";
import { createRuns, loadRuns, type NewRun, type RunRecord } from "../store/runs.js";
import { Batcher } from "./batcher.js";
import { differing, keyReused } from "./key-reused.js";

/** What a run is made from, checked at the door. */
export interface RunSpec {
  readonly namespace: string;
  readonly toolset: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly ttlMs: number | null;
  readonly key: string | null;
}

/** A run as this node knows it: what was fixed when it was made, and the next number for a call. */
export interface KnownRun {
  readonly record: RunRecord;
  /** This node's guess; the unique index on (run, seq) is the guard. */
  nextSeq: number;
}

const KNOWN_RUNS = 20_000;

/**
 * The runs that this node works for. What was fixed when a run was made is remembered; whether it is still
 * active is asked of the database, in the statement that inserts a call.
 */
export class Runs {
  readonly #db: Database;
  readonly #onTtl: (inMs: number) => void;
  readonly #known = new Map<string, KnownRun>();
  readonly #loading = new Map<string, Promise<KnownRun | null>>();
  readonly #creates: Batcher<NewRun, Awaited<ReturnType<typeof createRuns>>[number]>;

  /** `onTtl` is told of each TTL that is set here, as a hint to the sweep. */
  constructor(db: Database, onTtl: (inMs: number) => void = () => undefined) {
    this.#db = db;
    this.#onTtl = onTtl;
    this.#creates = new Batcher({ write: (specs) => createRuns(db, specs), sizeOf: () => 500 });
  }

  /**
   * Makes a run, or finds the one that its key names.
   *
   * @throws TrunklineError NOT_FOUND for a toolset that is not there; KEY_REUSED when the key names a run
   *   with other content.
   */
  async create(scope: Scope, spec: RunSpec): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    const id = uuidv7();
    const outcome = await this.#creates.push({ ...spec, projectId: scope.projectId, id });
    switch (outcome.type) {
      case "no_toolset":
        throw new TrunklineError("NOT_FOUND", `there is no toolset ${JSON.stringify(spec.toolset)}`, {
          metadata: { field: "toolset" },
        });
      case "created":
        this.#remember(outcome.run);
        if (spec.ttlMs !== null) this.#onTtl(spec.ttlMs);
        return { run: outcome.run, created: true };
      case "exists":
        checkSameRun(outcome.run, spec);
        // A create that was sent again after a lost commit finds itself.
        return { run: outcome.run, created: outcome.run.id === id };
    }
  }

  /** The run, or undefined where it is missing or not of this scope. */
  async get(scope: Scope, id: string): Promise<KnownRun | undefined> {
    const run = this.#known.get(id) ?? (await this.#load(scope.projectId, id));
    return run !== null && isWithin(run, scope) ? run : undefined;
  }

  /** The run, if this node knows it already; saves a turn of the event loop on the hot path. */
  peek(scope: Scope, id: string): KnownRun | undefined {
    const run = this.#known.get(id);
    return run !== undefined && isWithin(run, scope) ? run : undefined;
  }

  /** Forgets what was remembered, so that the next look reads it. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  async #load(projectId: number, id: string): Promise<KnownRun | null> {
    const key = `${projectId}:${id}`;
    const pending = this.#loading.get(key);
    if (pending !== undefined) return pending;
    const load = loadRuns(this.#db, [{ projectId, id }]).then(([record]) =>
      record === null || record === undefined ? null : this.#remember(record),
    );
    this.#loading.set(key, load);
    try {
      return await load;
    } finally {
      this.#loading.delete(key);
    }
  }

  #remember(record: RunRecord): KnownRun {
    const known = this.#known.get(record.id) ?? { record, nextSeq: record.nextSeq };
    this.#known.set(record.id, known);
    if (this.#known.size > KNOWN_RUNS) {
      const oldest = this.#known.keys().next();
      if (oldest.done !== true) this.#known.delete(oldest.value);
    }
    return known;
  }
}

function checkSameRun(run: RunRecord, spec: RunSpec): void {
  const differences = differing({
    namespace: run.namespace === spec.namespace,
    toolset: run.toolset === spec.toolset,
    labels: sameLabels(run.labels, spec.labels),
    ttl: run.ttlMs === spec.ttlMs,
  });
  if (differences.length > 0) throw keyReused(spec.key ?? "", `run ${run.id}`, differences);
}

function sameLabels(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

function isWithin({ record: { projectId, namespace, id } }: KnownRun, scope: Scope): boolean {
  return reaches(scope, { projectId, namespace, runId: id });
}
