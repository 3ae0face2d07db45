import { randomBytes } from "node:crypto";
import { v7 as uuidv7 } from "uuid";
import { afterAll } from "vitest";
import type { Call, CallFacts } from "../../server/src/core/call.js";
import type { CallEvent } from "../../server/src/core/event.js";
import { DEFAULT_POLICY } from "../../server/src/core/policy.js";
import type { Scope } from "../../server/src/core/scope.js";
import { birth, decide } from "../../server/src/core/transition.js";
import { insertCalls, type InsertOutcome, type NewCallRow } from "../../server/src/store/calls-insert.js";
import { loadCalls } from "../../server/src/store/calls-read.js";
import { endCalls, saveCalls, type SaveItem, type SaveOutcome } from "../../server/src/store/calls-save.js";
import { openDatabase, type Database } from "../../server/src/store/database.js";
import { createRuns, type NewRun, type RunRecord } from "../../server/src/store/runs.js";
import { helloSessions, type Hello, type HelloOutcome } from "../../server/src/store/sessions.js";
import { useDatabase, type TestDatabase } from "../support/database.js";

/** The `default` project. */
export const PROJECT = 1;

/** Reaches the whole `default` project. */
export const SCOPE: Scope = { projectId: PROJECT, namespace: null };

/** A node that no test registers, unless it says so. */
export const NODE = "node-1";

/** A session's number with its epoch. */
export interface TestSession {
  readonly number: number;
  readonly epoch: number;
}

/** What {@link useStore} gives. */
export interface TestStore {
  /** One connection; made on first use. */
  readonly db: Database;
  /** Another one, for what must happen at once. */
  readonly other: Database;
  readonly database: TestDatabase;
}

/** A database with the schema, and two handles on it with one connection each; closed after the tests. */
export function useStore(): TestStore {
  const database = useDatabase();
  const handles: Database[] = [];
  const handle = (index: number): Database =>
    (handles[index] ??= openDatabase({ url: database.url, maxConnections: 1, onError: () => {} }));
  afterAll(async () => {
    await Promise.all(handles.map((one) => one.close()));
  });
  return {
    get db() {
      return handle(0);
    },
    get other() {
      return handle(1);
    },
    database,
  };
}

/** Any name that no other test has. */
export function newName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

/** Makes an active run. */
export async function makeRun(db: Database, patch: Partial<NewRun> = {}): Promise<RunRecord> {
  const run: NewRun = {
    projectId: PROJECT,
    id: uuidv7(),
    key: null,
    namespace: "alice",
    toolset: null,
    labels: {},
    ttlMs: null,
    ...patch,
  };
  const [outcome] = await createRuns(db, [run]);
  if (outcome?.type !== "created") throw new Error(`the run was not created: ${outcome?.type ?? "nothing"}`);
  return outcome.run;
}

/** Says hello as a new worker, or as what the patch says. */
export async function makeSession(db: Database, patch: Partial<Hello> = {}): Promise<TestSession> {
  const answer = await helloSession(db, newHello(patch));
  if (answer.type !== "ok") throw new Error("the session is in use");
  return answer;
}

/** Says one hello. */
export async function helloSession(db: Database, hello: Hello): Promise<HelloOutcome> {
  const [outcome] = await helloSessions(db, [hello]);
  if (outcome === undefined) throw new Error("the hello came to nothing");
  return outcome;
}

/** A hello of a worker that nobody knows yet. */
export function newHello(patch: Partial<Hello> = {}): Hello {
  return {
    scope: SCOPE,
    sessionId: newName("session"),
    nonce: newName("nonce"),
    worker: "worker-1",
    sdk: "test/1",
    tools: ["echo"],
    toolset: null,
    helloNumber: 0,
    nodeId: NODE,
    intervalMs: 1_000,
    streamOpenHere: false,
    ...patch,
  };
}

/** How a test's call differs from a plain one. */
export interface CallPatch extends Partial<Omit<CallFacts, "projectId" | "runId" | "namespace" | "id">> {
  /** Born claimed by this session. */
  readonly session?: TestSession;
  readonly claimId?: string;
  readonly inputJson?: string;
  readonly priority?: number;
}

/** A row to insert: queued, or claimed where the patch has a session. */
export function newRow(run: RunRecord, seq: number, patch: CallPatch = {}): NewCallRow {
  const { session, claimId, inputJson, priority, ...facts } = patch;
  const claim =
    session === undefined
      ? null
      : { claimId: claimId ?? newName("claim"), session: session.number, worker: "worker-1" };
  return {
    ...birth(
      {
        projectId: run.projectId,
        runId: run.id,
        namespace: run.namespace,
        seq,
        key: newName("key"),
        turn: null,
        tool: "echo",
        executor: "worker",
        policy: DEFAULT_POLICY,
        ...facts,
        id: `${run.id}/${facts.seq ?? seq}`,
      },
      claim,
    ),
    inputJson: inputJson ?? "{}",
    priority: priority ?? 0,
    traceparent: "",
    toolset: run.toolset,
    epoch: session?.epoch ?? null,
  };
}

/** Inserts one row. */
export async function insertRow(db: Database, row: NewCallRow): Promise<InsertOutcome> {
  const [outcome] = await insertCalls(db, [row]);
  if (outcome === undefined) throw new Error("no outcome");
  return outcome;
}

/** Opens a call and returns it as it was stored. */
export async function openCall(
  db: Database,
  run: RunRecord,
  seq: number,
  patch: CallPatch = {},
): Promise<Call> {
  const row = newRow(run, seq, patch);
  const outcome = await insertRow(db, row);
  if (outcome.type !== "inserted") throw new Error(`the call was not inserted: ${outcome.type}`);
  return reload(db, row.call);
}

/** The call as the database has it. */
export async function reload(db: Database, call: Call): Promise<Call> {
  const [loaded] = await loadCalls(db, [call]);
  if (loaded === null || loaded === undefined) throw new Error(`call ${call.runId}/${call.seq} is not there`);
  return loaded;
}

/** Decides an event on a call, without storing it; the event must change something. */
export function decided(call: Call, event: CallEvent): SaveItem {
  const { change, verdict } = decide(call, event, 0.5);
  if (change === null) throw new Error(`${event.type} changes nothing: ${JSON.stringify(verdict)}`);
  return { before: call, change };
}

/** Stores a decision. */
export async function save(db: Database, item: SaveItem): Promise<SaveOutcome> {
  const ended = ["succeeded", "failed", "canceled"].includes(item.change.next.state);
  const [outcome] = await (ended ? endCalls(db, [item]) : saveCalls(db, [item]));
  if (outcome === undefined) throw new Error("no outcome");
  return outcome;
}

/** Decides an event on a call and stores it. */
export async function apply(db: Database, call: Call, event: CallEvent): Promise<Call> {
  const item = decided(call, event);
  const outcome = await save(db, item);
  if (outcome.type !== "saved") throw new Error(`${event.type} was not saved: ${outcome.type}`);
  return item.change.next;
}
