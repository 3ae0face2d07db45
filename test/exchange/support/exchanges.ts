import { randomBytes, randomUUID } from "node:crypto";
import { afterAll } from "vitest";
import type { Call, CallRef } from "../../../server/src/core/call.js";
import type { TrunklineError } from "../../../server/src/core/error.js";
import type { RevokeCause } from "../../../server/src/core/event.js";
import type { Answer } from "../../../server/src/core/failure.js";
import { DEFAULT_POLICY, type Policy } from "../../../server/src/core/policy.js";
import type { Scope } from "../../../server/src/core/scope.js";
import type { Delivery, WorkSink } from "../../../server/src/exchange/delivery.js";
import { Exchange } from "../../../server/src/exchange/exchange.js";
import type { OpenOutcome, OpenRequest } from "../../../server/src/exchange/opener.js";
import type { KnownRun, RunSpec } from "../../../server/src/exchange/runs.js";
import type { Session } from "../../../server/src/exchange/session.js";
import type { NamedClaim, Welcomed } from "../../../server/src/exchange/hello.js";
import { openDatabase, type Database } from "../../../server/src/store/database.js";
import { registerNode } from "../../../server/src/store/sessions.js";
import { useDatabase, type TestDatabase } from "../../support/database.js";
import { until } from "../../support/until.js";

/** Reaches the whole `default` project. */
export const SCOPE: Scope = { projectId: 1, namespace: null };

/** How a test's node differs from a plain one. */
export interface ExchangeOptions {
  /** Where it finds the database, when not at its own address. */
  readonly url?: string;
  /** Default 1 s. */
  readonly heartbeatIntervalMs?: number;
  readonly maxConnections?: number;
  /** Default: it does not. */
  readonly hearsHints?: () => boolean;
  /** Told of each statement before it is sent, outside of transactions; it may hold it up. */
  readonly onStatement?: (name: string) => void | Promise<void>;
}

/** A node's working memory, with what it reported. */
export interface TestExchange {
  readonly exchange: Exchange;
  readonly faults: readonly unknown[];
  /** Closes its connections, as its death would. */
  readonly close: () => Promise<void>;
}

/** A database, and as many nodes on it as the tests make; closed after the tests. */
export function useExchanges() {
  const database = useDatabase();
  const made: TestExchange[] = [];
  afterAll(async () => {
    await Promise.all(made.map((one) => one.close()));
  });
  return {
    database,
    async start(options: ExchangeOptions = {}): Promise<TestExchange> {
      const { url = database.url, heartbeatIntervalMs = 1_000, maxConnections = 5 } = options;
      const { hearsHints = () => false, onStatement } = options;
      const faults: unknown[] = [];
      const onError = (error: unknown): void => void faults.push(error);
      const opened = openDatabase({ url, maxConnections, onError });
      const db = onStatement === undefined ? opened : observed(opened, onStatement);
      const nodeId = randomUUID();
      await registerNode(db, nodeId, "", heartbeatIntervalMs);
      const exchange = new Exchange({ db, nodeId, heartbeatIntervalMs, hearsHints, onError });
      const one = { exchange, faults, close: once(exchange, db) };
      made.push(one);
      return one;
    },
    /** The call as the database has it. */
    call: (ref: CallRef): Promise<StoredCall> => storedCall(database, ref),
  };
}

function observed(db: Database, onStatement: (name: string) => void | Promise<void>): Database {
  return {
    query: (statement, values) => {
      const held = onStatement(statement.name);
      return held instanceof Promise
        ? held.then(() => db.query(statement, values))
        : db.query(statement, values);
    },
    transaction: (work) => db.transaction(work),
    close: () => db.close(),
  };
}

function once(exchange: Exchange, db: Database): () => Promise<void> {
  let closed: Promise<void> | undefined;
  return () => {
    exchange.stop();
    return (closed ??= db.close());
  };
}

/** What tests look at of a row. */
export interface StoredCall {
  readonly state: string;
  readonly version: number;
  readonly attempt: number;
  readonly spent: number;
  readonly claim_standing: string | null;
  readonly claim_id: string | null;
  readonly result: unknown;
  readonly failure: {
    readonly kind: string;
    readonly message: string;
    readonly outcomeUnknown: boolean;
  } | null;
}

async function storedCall(database: TestDatabase, { runId, seq }: CallRef): Promise<StoredCall> {
  const { rows } = await database
    .pool()
    .query<StoredCall>("SELECT * FROM calls WHERE run_id = $1 AND seq = $2", [runId, seq]);
  const [row] = rows;
  if (row === undefined) throw new Error(`there is no call ${runId}/${seq}`);
  return row;
}

/** A new run, as this node knows it. */
export async function newRun(exchange: Exchange, spec: Partial<RunSpec> = {}): Promise<KnownRun> {
  const { run } = await exchange.runs.create(SCOPE, {
    namespace: "alice",
    toolset: null,
    labels: {},
    ttlMs: null,
    key: null,
    ...spec,
  });
  return knownRun(exchange, run.id);
}

/** A run, as this node knows it. */
export async function knownRun(exchange: Exchange, id: string): Promise<KnownRun> {
  const run = await exchange.runs.get(SCOPE, id);
  if (run === undefined) throw new Error(`there is no run ${id}`);
  return run;
}

/** How a test's call differs from a plain one. */
export interface CallPatch extends Partial<Omit<OpenRequest, "run" | "policy">> {
  readonly policy?: Partial<Policy>;
}

/** What opens a call of tool `t`. */
export function request(run: KnownRun, { policy, ...patch }: CallPatch = {}): OpenRequest {
  return {
    run,
    tool: "t",
    executor: "worker",
    policy: { ...DEFAULT_POLICY, ...policy },
    inputJson: "{}",
    key: "",
    turn: null,
    priority: 0,
    traceparent: "",
    ...patch,
  };
}

/** Opens a call that is new. */
export async function open(exchange: Exchange, run: KnownRun, patch: CallPatch = {}): Promise<Call> {
  const outcome = await exchange.open(request(run, patch));
  if (outcome.type !== "created") throw new Error("the call was there already");
  return outcome.call;
}

/** The call that an open found or made. */
export function callOf(outcome: OpenOutcome): Call {
  return outcome.type === "created" ? outcome.call : outcome.record.call;
}

/** A name that no other test has. */
export function newName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

/** The answer of a worker whose handler returned this JSON. */
export function result(resultJson: string): Answer {
  return { type: "result", resultJson };
}

/** The worker's end of a session: it notes what it is sent. */
export class Worker implements WorkSink {
  readonly polls = false;
  readonly offers: Delivery[] = [];
  readonly confirmed: string[] = [];
  readonly revoked: { readonly claimId: string; readonly cause: RevokeCause }[] = [];
  isDrained = false;
  ended: TrunklineError | undefined;
  session: Session | undefined;

  offer(delivery: Delivery): void {
    this.offers.push(delivery);
  }

  confirm(claimId: string): void {
    this.confirmed.push(claimId);
  }

  revoke(claimId: string, cause: RevokeCause): void {
    this.revoked.push({ claimId, cause });
  }

  drained(): void {
    this.isDrained = true;
  }

  end(error: TrunklineError): void {
    this.ended = error;
  }

  /** The session, which said hello. */
  get own(): Session {
    if (this.session === undefined) throw new Error("the worker has not said hello");
    return this.session;
  }

  /** Its first offer. */
  offered(): Promise<Delivery> {
    return until("an offer", () => this.offers[0]);
  }

  /** Its offer of this call. */
  offerOf(call: CallRef, attempt = 1): Promise<Delivery> {
    return until(`attempt ${attempt} of call ${call.runId}/${call.seq}`, () =>
      this.offers.find(
        (offer) =>
          offer.call.runId === call.runId && offer.call.seq === call.seq && offer.call.attempt >= attempt,
      ),
    );
  }
}

/** What a worker says in its hello. */
export interface WorkerOptions {
  /** Its credential's. Default: the whole project. */
  readonly scope?: Scope;
  readonly tools?: readonly string[];
  readonly slots?: number;
  readonly sessionId?: string;
  readonly nonce?: string;
  readonly helloNumber?: number;
  readonly toolset?: string | null;
  readonly claims?: readonly NamedClaim[];
  readonly worker?: Worker;
}

/** Says hello and starts; the worker's end of it. */
export async function attach(
  exchange: Exchange,
  options: WorkerOptions = {},
): Promise<Worker & { welcomed: Welcomed }> {
  const worker = options.worker ?? new Worker();
  const welcomed = await exchange.sessions.hello(
    {
      scope: options.scope ?? SCOPE,
      slots: options.slots ?? 10,
      claims: options.claims ?? [],
      facts: {
        sessionId: options.sessionId ?? newName("session"),
        nonce: options.nonce ?? newName("nonce-of-a-process"),
        worker: "w",
        sdk: "test",
        tools: options.tools ?? ["t"],
        toolset: options.toolset ?? null,
        helloNumber: options.helloNumber ?? 0,
      },
    },
    worker,
  );
  worker.session = welcomed.session;
  welcomed.start();
  return Object.assign(worker, { welcomed });
}

/** Resolves when the worker's tools' queues are known to be empty, so that the next open goes straight to it. */
export async function emptyQueues(exchange: Exchange, worker: Worker): Promise<void> {
  const { credit } = worker.own;
  await until("no claim round is under way", async () => {
    await exchange.dispatch.poll();
    return worker.own.credit > 0 && worker.own.credit >= credit;
  });
}
