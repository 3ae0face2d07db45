import { randomUUID } from "node:crypto";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, KeyScope } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import { Rate } from "../../server/src/access/rate.js";
import { until } from "../support/until.js";
import { useNode } from "./node.js";
import { reasonOf, refusalOf } from "./serving.js";

const ROOT = "root-key-of-the-test";

const serving = useNode({
  rootKey: ROOT,
  quotas: {
    "key.calls_per_second": 20,
    "key.streams": 2,
    "namespace.open_calls": 3,
    "namespace.streams": 1,
    "project.open_calls": 50,
  },
});

function clients(credential: string, protocol: "connect" | "grpc" = "connect") {
  const show: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${credential}`);
    return next(request);
  };
  const common = { baseUrl: serving.node.url, interceptors: [show] };
  const transport =
    protocol === "grpc"
      ? createGrpcTransport(common)
      : createConnectTransport({ ...common, httpVersion: "1.1" });
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
  };
}

const root = () => clients(ROOT);
const newKey = async (): Promise<string> =>
  (await root().admin.createKey({ name: "k", scopes: [KeyScope.HARNESS] })).secret;

async function newRun(namespace = randomUUID()): Promise<string> {
  return (await root().runs.createRun({ spec: { namespace } })).run!.id;
}

/** Opens so many calls in one request; the reasons of those that were refused. */
async function openMany(credential: string, runId: string, count: number): Promise<string[]> {
  const calls = Array.from({ length: count }, () => ({ tool: "nobody.serves" }));
  const { results } = await clients(credential).calls.openCalls({ runId, calls });
  return results.flatMap(({ result }) => (result.case === "problem" ? [reasonOf(result.value)] : []));
}

/** A Drive stream that stays open until it is told to leave. */
async function drive(credential: string) {
  let leave = (): void => undefined;
  const left = new Promise<void>((resolve) => (leave = resolve));
  const stream = clients(credential, "grpc").calls.drive(
    (async function* () {
      yield {};
      await left;
    })(),
  );
  const frames = stream[Symbol.asyncIterator]();
  await frames.next();
  return { leave };
}

describe("a key", () => {
  test("opens so many calls a second, whatever another one does", async () => {
    const [busy, calm] = [await newKey(), await newKey()];
    const runs = await Promise.all(Array.from({ length: 10 }, () => newRun()));
    const refused = (await Promise.all(runs.map((run) => openMany(busy, run, 3)))).flat();
    expect(refused.length).toBeGreaterThan(0);
    expect(new Set(refused)).toEqual(new Set(["OVERLOADED"]));
    expect(await openMany(calm, await newRun(), 3)).toEqual([]);
  });

  test("has so many streams at a time, and one more when one has ended", async () => {
    const key = await newKey();
    const [first] = [await drive(key), await drive(key)];
    const { problem } = await refusalOf(drive(key));
    expect(reasonOf(problem)).toBe("OVERLOADED");
    expect(problem.retryAfter).toBeDefined();
    expect(problem.metadata).toMatchObject({ limit: "key.streams", max: "2" });
    first.leave();
    await until("there is room for another stream", () =>
      drive(key).then(
        () => true,
        () => false,
      ),
    );
  });
});

describe("an end user", () => {
  test("has so many calls open at a time over all runs, whoever opens them and at once", async () => {
    const namespace = randomUUID();
    const runs = [await newRun(namespace), await newRun(namespace)];
    const refused = (await Promise.all(runs.map((run) => openMany(ROOT, run, 4)))).flat();
    expect(refused).toEqual(Array.from({ length: 5 }, () => "OVERLOADED"));
    expect(await openMany(ROOT, await newRun(), 3)).toEqual([]);
    const { calls } = await root().calls.listCalls({ namespace });
    await root().calls.cancelCall({ call: { callId: calls[0]!.id } });
    expect(await openMany(ROOT, runs[0]!, 2)).toEqual(["OVERLOADED"]);
  });

  test("has one stream at a time by its tokens, and does not stand in another's way", async () => {
    const token = async (namespace: string): Promise<string> =>
      (await root().admin.createToken({ namespace, scopes: [KeyScope.HARNESS] })).token;
    await drive(await token("ada"));
    expect(reasonOf((await refusalOf(drive(await token("ada")))).problem)).toBe("OVERLOADED");
    await drive(await token("bob"));
  });
});

test("a rate lets a second's worth through at once, and says when there is more", () => {
  const rate = new Rate(10);
  const taken = Array.from({ length: 12 }, () => rate.take("a", 0));
  expect(taken.filter((waitMs) => waitMs === 0)).toHaveLength(10);
  expect(taken.at(-1)).toBe(100);
  expect(rate.take("b", 0)).toBe(0);
  expect(rate.take("a", 100)).toBe(0);
  expect(rate.take("a", 100)).toBe(100);
});
