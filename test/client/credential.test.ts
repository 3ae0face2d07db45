import { expect, test } from "vitest";
import { Trunkline, TrunklineError, type KeySource } from "../../client/src/index.js";
import { Refusals } from "../../client/src/refusals.js";
import { Endpoint } from "../../client/src/transport.js";
import { Worker } from "../../client/src/worker.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { lasting, until } from "../support/until.js";
import { gate } from "./support/claim.js";
import { useBackend } from "./support/server.js";

const ROOT = "root-key-of-the-test";
const backend = useBackend(ROOT);

const refused = new TrunklineError("UNAUTHENTICATED", "the token has expired");

test.each<[string, KeySource]>([
  ["is empty", ""],
  ["has a trailing newline", "abc\n"],
  ["is not ASCII", "schlüssel"],
  ["is a number", 5 as never],
])("a key that %s is refused when the client is made, and not shown", (_, key) => {
  const make = (): Trunkline => new Trunkline({ key });
  expect(make).toThrow(expect.objectContaining({ reason: "INVALID_FIELD", metadata: { field: "key" } }));
  if (key !== "") expect(make).not.toThrow(String(key));
});

test("a key that is given once is final when it is refused", () => {
  const refusals = new Refusals(false);
  expect(refusals.isFinal(refused)).toBe(true);
  expect(refusals.isFinal(new TrunklineError("UNAVAILABLE", "away"))).toBe(false);
});

test("a function is asked once more after a refusal, and again once a key of it was accepted", () => {
  const refusals = new Refusals(true);
  expect([refused, refused].map((error) => refusals.isFinal(error))).toEqual([false, true]);
  expect(refusals.isFinal(refused)).toBe(false);
  refusals.accepted();
  expect(refusals.isFinal(refused)).toBe(false);
  expect(refusals.isFinal(new TrunklineError("PERMISSION_DENIED", "no"))).toBe(true);
});

test("a stream whose key comes when it was dropped connects to nothing", async () => {
  await using proxy = await TcpProxy.start(Number(new URL(backend().url).port));
  const late = gate<string>();
  let first = true;
  const key = (): string | Promise<string> => {
    if (!first) return ROOT;
    first = false;
    return late.promise;
  };
  const endpoint = new Endpoint({ url: proxy.url, key, transport: "stream" }, () => undefined, {
    welcomeMs: 200,
  });
  const worker = new Worker(endpoint, { tools: { echo: () => 1 } }, () => undefined);
  await until("it is connected by the second", () => worker.status === "connected");
  const { connections } = proxy;
  late.open(ROOT);
  await lasting(100);
  expect(proxy.connections).toBe(connections);
  await worker.stop();
  endpoint.route.close();
});

test("a request whose key never comes ends with its signal", async () => {
  const client = backend().client({ key: () => new Promise<string>(() => undefined) });
  const abort = new AbortController();
  const result = client.runs
    .open("01990000-0000-7000-8000-000000000000")
    .turn(1)
    .settled({ signal: abort.signal });
  setImmediate(() => abort.abort());
  await expect(result).rejects.toMatchObject({ name: "AbortError" });
  await client.close();
});
