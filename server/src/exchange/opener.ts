import { isEnded, type Call, type CallFacts, type Executor } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Timers } from "../core/event.js";
import { LIMITS } from "../core/limits.js";
import { samePolicy, type Policy } from "../core/policy.js";
import { birth } from "../core/transition.js";
import { insertCalls, type InsertOutcome, type NewCallRow } from "../store/calls-insert.js";
import type { Database } from "../store/database.js";
import type { CallRecord, Instant } from "../store/rows.js";
import { Batcher } from "./batcher.js";
import { formatCallId } from "../core/name.js";
import type { Assignment, Dispatch } from "./dispatch.js";
import { differing, keyReused } from "./key-reused.js";
import { randomId } from "./random-id.js";
import type { KnownRun } from "./runs.js";
import type { QueuedCall } from "./tool-queues.js";

/** A call to open, checked at the door. */
export interface OpenRequest {
  readonly run: KnownRun;
  readonly tool: string;
  readonly executor: Executor;
  /** Fixed here for the life of the call. */
  readonly policy: Policy;
  readonly inputJson: string;
  /** Empty: one is made. */
  readonly key: string;
  readonly turn: number | null;
  readonly priority: number;
  readonly traceparent: string;
}

/** A call that was just stored. */
export interface Born {
  readonly call: Call;
  readonly request: OpenRequest;
  readonly openedAt: Instant;
  readonly timers: Timers;
  /** The session that the call went to directly, if any. */
  readonly assignment: Assignment | null;
}

/** What became of an open. */
export type OpenOutcome =
  | { readonly type: "created"; readonly call: Call; readonly openedAt: Instant }
  /** The key names a call that was there already, with the same content. */
  | { readonly type: "exists"; readonly record: CallRecord };

/** What the opener is given. */
export interface OpenerOptions {
  readonly db: Database;
  readonly dispatch: Dispatch;
  /** Whether other nodes may open calls of the same runs. */
  readonly othersAlive: () => boolean;
  /** Told of each new call after its commit, before the caller. */
  readonly onBorn: (born: Born) => void;
}

/** An outcome, and whether the batch may have been written before. */
interface Inserted {
  readonly outcome: InsertOutcome;
  readonly again: boolean;
}

/** A call on its way into the database. */
class Opening {
  readonly request: OpenRequest;
  readonly key: string;
  readonly seq: number;
  /** The session that was chosen for it, with one credit taken, which is either used or put back. */
  assignment: Assignment | null;
  readonly #since = performance.now();
  #row: NewCallRow | null = null;

  constructor(request: OpenRequest, key: string, assignment: Assignment | null) {
    this.request = request;
    this.key = key;
    this.seq = request.run.nextSeq++;
    this.assignment = assignment;
  }

  /**
   * What is inserted, always the same: it is made when the first batch with it is written, and only then is a worker
   * chosen. While it waited for its batch, workers may have got room.
   */
  row(dispatch: Dispatch): NewCallRow {
    if (this.#row === null) {
      this.assignment ??= assign(dispatch, this.request);
      this.#row = toRow(this.request, this.key, this.seq, this.assignment);
    }
    return this.#row;
  }

  /** Whether it would be queued now, though workers here will soon have room for it. */
  isEarly(dispatch: Dispatch): boolean {
    this.assignment ??= assign(dispatch, this.request);
    if (this.assignment !== null || performance.now() - this.#since > MAX_WAIT_MS) return false;
    return hasRoomSoon(dispatch, this.request);
  }
}

const ROUGH_ROW_BYTES = 400;
const MAX_RENUMBERINGS = 100;
/**
 * Answers give workers room; while so many opens wait, they would be stored faster than workers take them, and a call
 * that is queued costs a third more row version. A larger batch costs less a call.
 */
const CROWD = { above: 500, maxItems: 500 };
/** How long one of a crowd waits for room at most: what is queued already may take it all. */
const MAX_WAIT_MS = 500;

/**
 * Opens calls: numbers them, gives a keyless one a key, chooses a worker when one is free, and inserts
 * them in batches; a call that a worker was chosen for is inserted already claimed.
 */
export class Opener {
  readonly #options: OpenerOptions;
  readonly #inserts: Batcher<Opening, Inserted>;

  constructor(options: OpenerOptions) {
    this.#options = options;
    const { db, dispatch, othersAlive } = options;
    this.#inserts = new Batcher({
      write: async (openings, again) => {
        const outcomes = await insertCalls(
          db,
          openings.map((opening) => opening.row(dispatch)),
          othersAlive(),
        );
        return outcomes.map((outcome) => ({ outcome, again }));
      },
      sizeOf: ({ request }) => ROUGH_ROW_BYTES + request.inputJson.length,
      laneOf: ({ request: { run } }) => `${run.record.projectId}:${run.record.namespace}`,
      crowd: { ...CROWD, isEarly: (opening) => opening.isEarly(dispatch) },
      maxWaiting: LIMITS.opensWaiting,
      maxWaitingBytes: LIMITS.opensWaitingBytes,
    });
  }

  /**
   * Opens a call; resolves after its commit.
   *
   * @throws TrunklineError RUN_ENDED; KEY_REUSED when the key names a call with other content;
   *   OVERLOADED when too many opens wait; UNAVAILABLE.
   */
  async open(request: OpenRequest): Promise<OpenOutcome> {
    const { run } = request;
    const key = request.key === "" ? newKey() : request.key;
    let opening = new Opening(request, key, null);
    try {
      for (let tries = 0; tries < MAX_RENUMBERINGS; tries++) {
        const { outcome, again } = await this.#inserts.push(opening);
        if (outcome.type === "exists") return this.#found(opening, outcome.record, again);
        if (outcome.type === "inserted") return this.#inserted(opening, outcome);
        if (outcome.type === "run_ended") throw runEnded(run);
        run.nextSeq = Math.max(run.nextSeq, outcome.nextSeq);
        opening = new Opening(request, key, opening.assignment);
      }
      throw new TrunklineError(
        "UNAVAILABLE",
        `run ${run.record.id} takes calls on too many nodes at once; try again`,
      );
    } catch (error) {
      this.#putBack(opening);
      throw error;
    }
  }

  #inserted(opening: Opening, { openedAt, claimed }: InsertOutcome & { type: "inserted" }): OpenOutcome {
    const { call } = opening.row(this.#options.dispatch);
    if (!claimed && opening.assignment !== null) {
      this.#options.dispatch.outdated(opening.assignment);
      opening.assignment = null;
    }
    return { type: "created", call: this.#born(opening, call, openedAt, claimed), openedAt };
  }

  /** The key names a call that is there: an earlier one, or this one, whose first reply was lost. */
  #found(opening: Opening, record: CallRecord, again: boolean): OpenOutcome {
    const row = opening.row(this.#options.dispatch);
    if (again && isOwn(record, row) && !isEnded(record.call)) {
      const { call, openedAt } = record;
      return {
        type: "created",
        call: this.#born(opening, call, openedAt, call.state === "claimed"),
        openedAt,
      };
    }
    const differences = differencesOf(record, row);
    if (differences.length > 0) {
      const id = formatCallId(record.call);
      throw keyReused(row.call.key, `call ${id}`, differences, { call_id: id });
    }
    this.#putBack(opening);
    return { type: "exists", record };
  }

  #born(opening: Opening, stored: Call, openedAt: Instant, claimed: boolean): Call {
    if (!claimed) this.#putBack(opening);
    const { request, assignment } = opening;
    // The session's epoch had moved on: it was inserted without the claim.
    const call = stored.state === "claimed" && assignment === null ? birth(stored, null).call : stored;
    const { timers } = opening.row(this.#options.dispatch);
    this.#options.onBorn({ call, request, openedAt, timers, assignment });
    if (assignment !== null) this.#options.dispatch.offered(assignment);
    return call;
  }

  #putBack(opening: Opening): void {
    if (opening.assignment !== null) this.#options.dispatch.putBack(opening.assignment);
    opening.assignment = null;
  }
}

function assign(dispatch: Dispatch, request: OpenRequest): Assignment | null {
  if (request.executor === "client") return null;
  return dispatch.assign(toQueuedCall(request), request.run.record.toolset);
}

function hasRoomSoon(dispatch: Dispatch, request: OpenRequest): boolean {
  if (request.executor === "client") return false;
  return dispatch.hasRoomSoon(toQueuedCall(request), request.run.record.toolset);
}

function toQueuedCall({ run, tool }: OpenRequest): QueuedCall {
  const { projectId, id: runId, namespace } = run.record;
  return { projectId, runId, namespace, tool };
}

const OWN_KEYS = `auto-${randomId()}-`;
const KEY_DIGITS = 8;
let keysMade = 0;

/** A key that no caller will make by itself. In their order they lie side by side in the index. */
function newKey(): string {
  return OWN_KEYS + (keysMade++).toString(36).padStart(KEY_DIGITS, "0");
}

function toRow(request: OpenRequest, key: string, seq: number, assignment: Assignment | null): NewCallRow {
  const { run, inputJson, priority, traceparent } = request;
  const facts: CallFacts = {
    projectId: run.record.projectId,
    runId: run.record.id,
    seq,
    id: formatCallId({ runId: run.record.id, seq }),
    key,
    turn: request.turn,
    namespace: run.record.namespace,
    tool: request.tool,
    executor: request.executor,
    policy: request.policy,
  };
  const claim =
    assignment === null
      ? null
      : {
          claimId: assignment.claimId,
          session: assignment.session.number,
          worker: assignment.session.facts.worker,
        };
  const { call, timers } = birth(facts, claim);
  return {
    call,
    timers,
    inputJson,
    priority,
    traceparent,
    toolset: run.record.toolset,
    epoch: assignment?.epoch ?? null,
  };
}

/** Whether the row that is there is the one that this node wrote. */
function isOwn(record: CallRecord, row: NewCallRow): boolean {
  return (
    record.call.seq === row.call.seq &&
    differencesOf(record, row).length === 0 &&
    (row.call.claim === null || record.call.claim === null || record.call.claim.id === row.call.claim.id)
  );
}

/** What of a call's content is not the same. */
function differencesOf(record: CallRecord, row: NewCallRow): string[] {
  return differing({
    tool: record.call.tool === row.call.tool,
    input: record.inputJson === row.inputJson,
    turn: record.call.turn === row.call.turn,
    priority: record.priority === row.priority,
    policy: samePolicy(record.call.policy, row.call.policy),
  });
}

function runEnded({ record }: KnownRun): TrunklineError {
  return new TrunklineError("RUN_ENDED", `run ${record.id} has ended; it takes no new calls`);
}
