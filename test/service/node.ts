import { randomUUID } from "node:crypto";
import { createClient, type Client } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { CallService } from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { afterAll, beforeAll, expect } from "vitest";
import { Quotas } from "../../server/src/access/quotas.js";
import type { QuotaLimits } from "../../server/src/core/quota.js";
import { Exchange } from "../../server/src/exchange/exchange.js";
import { Maintenance } from "../../server/src/maintenance/maintenance.js";
import { serviceDeps, type ServiceDeps } from "../../server/src/service/deps.js";
import { listen, type Listener, type ListenerOptions } from "../../server/src/service/listener.js";
import { serviceHandler } from "../../server/src/service/routes.js";
import { openDatabase, type Database } from "../../server/src/store/database.js";
import { registerNode } from "../../server/src/store/sessions.js";
import { openAccess } from "../support/access.js";
import { useDatabase, type TestDatabase } from "../support/database.js";

/** How a node of a test differs from a plain one. */
export interface NodeOptions {
  /** Default 200. */
  readonly heartbeatIntervalMs?: number;
  /** Where the node finds the database, when not at its own address. */
  readonly databaseUrl?: string;
  /** Default: those of a listener. */
  readonly timeouts?: ListenerOptions["timeouts"];
  /** The one key that it asks for. Default: it asks for none. */
  readonly rootKey?: string;
  /** What each key, end user and project may use. Default: as much as there is. */
  readonly quotas?: QuotaLimits;
}

type Spec = NonNullable<Parameters<Client<typeof CallService>["openCalls"]>[0]["calls"]>[number];

/** A whole server in this process, with its inside at hand. */
export class TestNode {
  readonly exchange: Exchange;
  readonly deps: ServiceDeps;
  /** What the server would have logged. */
  readonly faults: readonly unknown[];
  readonly calls: Client<typeof CallService>;
  readonly runs: Client<typeof RunService>;
  readonly tasks: Client<typeof TaskService>;
  readonly toolsets: Client<typeof ToolsetService>;
  readonly #listener: Listener;
  readonly #maintenance: Maintenance;
  readonly #db: Database;

  private constructor(parts: {
    readonly db: Database;
    readonly exchange: Exchange;
    readonly deps: ServiceDeps;
    readonly listener: Listener;
    readonly maintenance: Maintenance;
    readonly faults: readonly unknown[];
  }) {
    this.#db = parts.db;
    this.exchange = parts.exchange;
    this.deps = parts.deps;
    this.#listener = parts.listener;
    this.#maintenance = parts.maintenance;
    this.faults = parts.faults;
    const transport = createConnectTransport({ baseUrl: this.url, httpVersion: "1.1" });
    this.calls = createClient(CallService, transport);
    this.runs = createClient(RunService, transport);
    this.tasks = createClient(TaskService, transport);
    this.toolsets = createClient(ToolsetService, transport);
  }

  static async start(database: TestDatabase, options: NodeOptions = {}): Promise<TestNode> {
    const {
      heartbeatIntervalMs = 200,
      databaseUrl = database.url,
      timeouts,
      rootKey = null,
      quotas,
    } = options;
    const faults: unknown[] = [];
    const onError = (error: unknown): void => void faults.push(error);
    const db = openDatabase({ url: databaseUrl, maxConnections: 5, onError });
    const nodeId = randomUUID();
    await registerNode(db, nodeId, "", heartbeatIntervalMs);
    const exchange = new Exchange({ db, nodeId, heartbeatIntervalMs, onError });
    const access = await openAccess(db, { rootKey });
    const maintenance = new Maintenance({ exchange, retentionMs: null, access, onError });
    const bounds = quotas === undefined ? null : new Quotas(db, quotas);
    const deps = serviceDeps(exchange, onError, undefined, bounds);
    access.onRecheck(() => deps.streams.expel((caller) => access.refusalOf(caller)));
    const handler = serviceHandler(deps, access, () => true);
    const listener = await listen({
      host: "127.0.0.1",
      port: 0,
      handler,
      onError,
      ...(timeouts && { timeouts }),
    });
    maintenance.start();
    return new TestNode({ db, exchange, deps, listener, maintenance, faults });
  }

  get url(): string {
    return this.#listener.url;
  }

  get port(): number {
    return this.#listener.port;
  }

  async stop(): Promise<void> {
    this.exchange.stop();
    await this.#listener.close({ graceMs: 0 });
    await this.#maintenance.stop();
    await this.deps.streams.idle(1_000);
    await this.#db.close();
  }

  async newRun(spec: Parameters<Client<typeof RunService>["createRun"]>[0]["spec"] = {}): Promise<string> {
    const { run } = await this.runs.createRun({ spec });
    return run?.id ?? expect.fail("no run was made");
  }

  /** Opens calls in a run, or in one of their own; their ids. */
  async open(...calls: Spec[]): Promise<string[]> {
    return this.openIn(await this.newRun(), ...calls);
  }

  async openIn(runId: string, ...calls: Spec[]): Promise<string[]> {
    const { results } = await this.calls.openCalls({ runId, calls });
    return results.map(({ result }) =>
      result.case === "opened" ? result.value.callId : expect.fail(`not opened: ${result.value?.message}`),
    );
  }

  async openOne(spec: Spec): Promise<string> {
    const [id] = await this.open(spec);
    return id ?? expect.fail("not opened");
  }

  /** The call as it stands. */
  async call(callId: string) {
    const { call } = await this.calls.getCall({ call: { callId } });
    return call ?? expect.fail(`there is no call ${callId}`);
  }

  async settle(callId: string, resultJson: string): Promise<void> {
    const { results } = await this.calls.settleCalls({
      items: [{ call: { callId }, settlement: { outcome: { case: "resultJson", value: resultJson } } }],
    });
    expect(results[0]?.problem).toBeUndefined();
  }
}

/** A node on a database of its own, from before the file's first test until after its last. */
export function useNode(options: NodeOptions = {}): {
  readonly database: TestDatabase;
  readonly node: TestNode;
} {
  const database = useDatabase();
  let node: TestNode | undefined;
  beforeAll(async () => {
    node = await TestNode.start(database, options);
  });
  afterAll(async () => {
    await node?.stop();
  });
  return {
    database,
    get node() {
      return node ?? expect.fail("the node is there only while tests run");
    },
  };
}
