import { Code } from "@connectrpc/connect";
import { HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { CallService } from "@trunkline/proto/call";
import { describe, expect, test } from "vitest";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const KEY = "tl_root_0123456789";
const serving = useServing(KEY);

describe("keys", () => {
  test("the root key reaches everything, over every protocol", async () => {
    for (const protocol of ["connect", "json", "grpc"] as const) {
      expect(await serving.clients({ key: KEY, protocol }).runs.listRuns({})).toMatchObject({ runs: [] });
    }
  });

  test.each([undefined, "", "wrong", `${KEY}x`, KEY.slice(0, -1), `${KEY} ${KEY}`])(
    "key %j is refused, and not repeated (S14)",
    async (key) => {
      for (const protocol of ["connect", "grpc"] as const) {
        const clients = serving.clients({ protocol, ...(key === undefined ? {} : { key }) });
        for (const error of await Promise.all([
          refusalOf(clients.runs.createRun({ spec: {} })),
          refusalOf(clients.calls.listCalls({})),
          refusalOf(clients.toolsets.listToolsets({})),
          refusalOf(clients.admin.listKeys({})),
        ])) {
          expect([error.code, reasonOf(error.problem)]).toEqual([Code.Unauthenticated, "UNAUTHENTICATED"]);
          if (key !== undefined && key !== "") expect(error.message).not.toContain(key);
        }
      }
    },
  );

  test("a wrong key gets 401", async () => {
    const response = await fetch(`${serving.url}/trunkline.v1.RunService/ListRuns`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer wrong" },
      body: "{}",
    });
    expect(response.status).toBe(401);
  });

  test("a request without a key stores nothing", async () => {
    await refusalOf(serving.runs.createRun({ spec: {} }));
    const { rows } = await serving.database.pool().query("SELECT FROM runs");
    expect(rows).toHaveLength(0);
  });
});

test("what is not built of AdminService says so", async () => {
  const error = await refusalOf(serving.clients({ key: KEY }).admin.getStats({}));
  expect(error.code).toBe(Code.Unimplemented);
});

describe("health", () => {
  test("it asks for no key, and knows the services by name", async () => {
    expect(await serving.health.check({})).toMatchObject({ status: Status.SERVING });
    const byName = await serving
      .clients({ protocol: "grpc" })
      .health.check({ service: CallService.typeName });
    expect(byName.status).toBe(Status.SERVING);
    expect((await refusalOf(serving.health.check({ service: "trunkline.v1.Nothing" }))).code).toBe(
      Code.NotFound,
    );
  });

  test("watching an unknown service says so, and waits", async () => {
    const leaving = new AbortController();
    const watching = serving
      .clients({ protocol: "grpc" })
      .health.watch({ service: "x" }, { signal: leaving.signal });
    const responses = watching[Symbol.asyncIterator]();
    expect((await responses.next()).value).toMatchObject({ status: Status.SERVICE_UNKNOWN });
    leaving.abort();
    await expect(responses.next()).rejects.toMatchObject({ code: Code.Canceled });
  });

  test("a watcher is told of the shutdown, and a wait ends with it", async () => {
    const clients = serving.clients({ protocol: "grpc", key: KEY });
    const responses = clients.health.watch({})[Symbol.asyncIterator]();
    expect((await responses.next()).value).toMatchObject({ status: Status.SERVING });
    const { run } = await clients.runs.createRun({ spec: {} });
    const runId = run?.id ?? "";
    await clients.calls.openCalls({ runId, calls: [{ tool: "t" }] });
    const waiting = refusalOf(clients.calls.waitCalls({ calls: [{ callId: `${runId}/1` }] }));
    await expect.poll(() => serving.exchange.waiters.size, { interval: 5 }).toBe(1);
    serving.shutDown();
    expect((await responses.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    expect(await responses.next()).toMatchObject({ done: true });
    expect((await waiting).code).toBe(Code.Unavailable);
    expect(await clients.health.check({})).toMatchObject({ status: Status.NOT_SERVING });
  });
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
