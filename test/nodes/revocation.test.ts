import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { createLog } from "../../server/src/log.js";
import { startServer, type Server } from "../../server/src/server.js";
import { useDatabase } from "../support/database.js";
import { within } from "../support/until.js";

const ROOT = "root-key-of-the-test";
const HEARTBEAT_MS = 300;
/** An interval, what it takes to read, and what a busy machine adds. */
const HEARD_MS = HEARTBEAT_MS + 700;

const database = useDatabase();
let nodes: readonly Server[] = [];
const clients: Trunkline[] = [];

beforeAll(async () => {
  const node = (): Promise<Server> =>
    startServer({
      databaseUrl: database.url,
      port: 0,
      rootKey: ROOT,
      heartbeatIntervalMs: HEARTBEAT_MS,
      log: createLog("error"),
    });
  nodes = [await node(), await node()];
});
afterEach(() => Promise.all(clients.splice(0).map((client) => client.close())));
afterAll(() => Promise.all(nodes.map((node) => node.stop({ graceMs: 200 }))));

/** A client of the first node or of the second. */
function clientOf(node: 0 | 1, key: string): Trunkline {
  const client = new Trunkline({ url: nodes[node]!.url, key, onWarning: () => undefined });
  clients.push(client);
  return client;
}

const reasonOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "none",
    (error: unknown) => (error instanceof TrunklineError ? error.reason : error),
  );

test("what one node gives out is good at the other at once", async () => {
  const root = clientOf(0, ROOT);
  for (let count = 0; count < 3; count++) {
    const { key } = await root.keys.create({ name: "new", scopes: ["harness"] });
    await clientOf(1, key).runs.list();
  }
  await root.tokens.rotateSigningKey();
  const { token } = await root.tokens.create({ namespace: "ada", scopes: ["harness"] });
  await clientOf(1, token).runs.list();
});

test("what one node revokes has its streams at the other ended within a heartbeat interval", async () => {
  const root = clientOf(0, ROOT);
  const { id, key } = await root.keys.create({ name: "old", scopes: ["worker", "harness"] });
  const token = await root.tokens.create({ namespace: "ada", scopes: ["worker", "harness"] });
  const waiting: Promise<unknown>[] = [];
  for (const credential of [key, token.token]) {
    const client = clientOf(1, credential);
    const run = await client.runs.create({ namespace: "ada" });
    const worker = client.worker({ tools: { echo: (input) => input }, onError: () => undefined });
    expect(await run.call("echo", 1)).toBe(1);
    waiting.push(reasonOf(worker.done), reasonOf(run.call("nobody")));
  }
  await root.keys.revoke(id);
  await root.tokens.revoke(token.id);
  const reasons = await within("the end of all streams", Promise.all(waiting), HEARD_MS);
  expect(reasons).toEqual(waiting.map(() => "UNAUTHENTICATED"));
});
