import { randomUUID } from "node:crypto";
import { ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ProblemSchema, Reason, type Problem } from "@trunkline/proto/problem";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { afterAll, beforeAll, expect } from "vitest";
import { Exchange } from "../../server/src/exchange/exchange.js";
import { serviceDeps } from "../../server/src/service/deps.js";
import { listen, type Listener } from "../../server/src/service/listener.js";
import { serviceHandler } from "../../server/src/service/routes.js";
import { openDatabase, type Database } from "../../server/src/store/database.js";
import { openAccess } from "../support/access.js";
import { useDatabase, type TestDatabase } from "../support/database.js";

/** `json` is Connect with JSON, which alone has a way to write half a surrogate pair. */
type Protocol = "connect" | "json" | "grpc";

/** Clients of all unary services, over one transport. */
export interface Clients {
  readonly calls: Client<typeof CallService>;
  readonly runs: Client<typeof RunService>;
  readonly tasks: Client<typeof TaskService>;
  readonly toolsets: Client<typeof ToolsetService>;
  readonly health: Client<typeof Health>;
  readonly admin: Client<typeof AdminService>;
}

/** The unary services on a real port, over a real database; no worker and no upkeep. */
export interface Serving extends Clients {
  readonly database: TestDatabase;
  readonly url: string;
  readonly exchange: Exchange;
  /** What the server would have logged. */
  readonly faults: readonly unknown[];
  /** Clients with a key, or of another protocol. */
  clients(options: { readonly key?: string; readonly protocol?: Protocol }): Clients;
  /** Tells the streams of the shutdown, as a node does that goes down. */
  shutDown(): void;
}

interface Running {
  readonly listener: Listener;
  readonly db: Database;
  readonly exchange: Exchange;
  readonly shutDown: () => void;
}

/** Serves from before the file's first test until after its last; everybody where there is no root key. */
export function useServing(rootKey: string | null = null): Serving {
  const database = useDatabase();
  const faults: unknown[] = [];
  let running: Running | undefined;
  const current = (): Running => {
    if (running === undefined) throw new Error("useServing: it serves only while tests run");
    return running;
  };
  beforeAll(async () => {
    running = await serve(database, rootKey, (error) => faults.push(error));
  });
  afterAll(async () => {
    await running?.listener.close({ graceMs: 0 });
    await running?.db.close();
  });
  const clients: Serving["clients"] = (options) => makeClients(current().listener.url, options);
  let plain: Clients | undefined;
  const own = (): Clients => (plain ??= clients({}));
  return {
    database,
    faults,
    clients,
    shutDown: () => current().shutDown(),
    get url() {
      return current().listener.url;
    },
    get exchange() {
      return current().exchange;
    },
    get calls() {
      return own().calls;
    },
    get runs() {
      return own().runs;
    },
    get tasks() {
      return own().tasks;
    },
    get toolsets() {
      return own().toolsets;
    },
    get health() {
      return own().health;
    },
    get admin() {
      return own().admin;
    },
  };
}

async function serve(
  database: TestDatabase,
  rootKey: string | null,
  onError: (error: unknown) => void,
): Promise<Running> {
  const db = openDatabase({ url: database.url, maxConnections: 4, onError });
  const exchange = new Exchange({ db, nodeId: randomUUID(), heartbeatIntervalMs: 1_000, onError });
  const deps = serviceDeps(exchange, onError);
  const access = await openAccess(db, { rootKey });
  let serving = true;
  const listener = await listen({
    host: "127.0.0.1",
    port: 0,
    handler: serviceHandler(deps, access, () => serving),
    onError,
  });
  const shutDown = (): void => {
    serving = false;
    deps.streams.shutDown(1_000);
  };
  return { listener, db, exchange, shutDown };
}

function makeClients(url: string, options: Parameters<Serving["clients"]>[0]): Clients {
  const { key, protocol = "connect" } = options;
  const withKey: Interceptor = (next) => (request) => {
    if (key !== undefined) request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };
  const common = { baseUrl: url, interceptors: [withKey] };
  const transport =
    protocol === "grpc"
      ? createGrpcTransport(common)
      : createConnectTransport({ ...common, httpVersion: "1.1", useBinaryFormat: protocol !== "json" });
  return {
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
    tasks: createClient(TaskService, transport),
    toolsets: createClient(ToolsetService, transport),
    health: createClient(Health, transport),
    admin: createClient(AdminService, transport),
  };
}

/** The `Problem` that a request is refused with; fails the test when it is not. */
export async function refusalOf(request: Promise<unknown>): Promise<ConnectError & { problem: Problem }> {
  const error = await request.then(
    () => expect.fail("the request was not refused"),
    (reason: unknown) => ConnectError.from(reason),
  );
  const [problem] = error.findDetails(ProblemSchema);
  if (problem === undefined) return expect.fail(`the error has no Problem: ${error.message}`);
  return Object.assign(error, { problem });
}

/** The name of a problem's reason. */
export function reasonOf({ reason }: Problem): string {
  return Reason[reason];
}
