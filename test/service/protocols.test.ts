import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { create } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { CallService, GetCallRequestSchema } from "@trunkline/proto/call";
import { Health, HealthCheckResponse_ServingStatus as Serving } from "@trunkline/proto/health";
import { PolicyMode } from "@trunkline/proto/model";
import { ProblemSchema, Reason, type Problem } from "@trunkline/proto/problem";
import { ServerReflection } from "@trunkline/proto/reflection";
import { ServerReflection as AlphaReflection } from "@trunkline/proto/reflection-v1alpha";
import { RunService, RunState } from "@trunkline/proto/run";
import { WorkerService } from "@trunkline/proto/worker";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postJson } from "../support/connect-json.js";
import { until, within } from "../support/until.js";
import { TestNode, useNode } from "./node.js";
import { openOne } from "./protocol-case.js";
import { UNARY_CASES } from "./protocol-cases.js";
import { allServices, clientsOf, PROTOCOLS, STREAM_PROTOCOLS, type Clients } from "./protocol-clients.js";
import { DriveClient, newHello, WorkClient, type MakeTransport } from "./raw-stream.js";

const ROOT_KEY = "k".repeat(32);
const it = useNode();
const guarded = useGuardedNode();

/** Another node, which asks for {@link ROOT_KEY}. */
function useGuardedNode(): () => TestNode {
  let node: TestNode | undefined;
  beforeAll(async () => {
    node = await TestNode.start(it.database, { rootKey: ROOT_KEY });
  });
  afterAll(() => node?.stop());
  return () => node!;
}

const rpcs = (await allServices()).flatMap(({ methods, typeName }) =>
  methods.map(({ name, methodKind }) => ({ rpc: `${typeName}/${name}`, isUnary: methodKind === "unary" })),
);
const named = (isUnary: boolean) => rpcs.filter((each) => each.isUnary === isUnary).map(({ rpc }) => rpc);

test("every RPC of the schemas has a case here", () => {
  expect([...UNARY_CASES.keys()].sort()).toEqual(named(true).sort());
  expect(Object.keys(STREAM_CASES).sort()).toEqual(named(false).sort());
});

/** What a request is refused with. */
async function refusalOf(
  request: Promise<unknown>,
): Promise<{ readonly error: ConnectError; readonly problem: Problem }> {
  const error = await request.then(
    () => expect.fail("it was not refused"),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  const [problem] = error.findDetails(ProblemSchema);
  return { error, problem: problem ?? expect.fail(`it has no Problem: ${error.message}`) };
}

const MIB = 2 ** 20;

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${ROOT_KEY}`);
  return next(request);
};

describe.each(Object.entries(PROTOCOLS))("by %s,", (_protocol, makeTransport) => {
  let by: Clients;

  beforeAll(() => {
    by = clientsOf(makeTransport({ baseUrl: it.node.url }));
  });

  test.each([...UNARY_CASES].filter(([, { answers }]) => answers !== undefined))(
    "%s does what it is there for",
    async (_rpc, { answers }) => {
      await answers?.(by);
    },
  );

  test.each([...UNARY_CASES])(
    "%s refuses with its code, and its Problem",
    async (_rpc, { refuses, reason, code }) => {
      const { error, problem } = await refusalOf(refuses(by));
      expect(Reason[problem.reason]).toBe(reason);
      expect([Code[error.code], error.rawMessage]).toEqual([Code[code], problem.message]);
      expect(problem.code).toBe(code);
      if (reason === "INVALID_FIELD") expect(problem.metadata).toMatchObject({ field: expect.any(String) });
    },
  );

  test("payloads of a megabyte go both ways, and what is above the limit is refused alone", async () => {
    const largest = JSON.stringify("é".repeat((MIB - 2) / 2));
    const { runId, callId } = await openOne(by, { tool: "nobody", inputJson: largest });
    const items = [
      { call: { callId }, settlement: { outcome: { case: "resultJson" as const, value: largest } } },
    ];
    await by.calls.settleCalls({ items });
    const { call } = await by.calls.getCall({ call: { callId } });
    expect([call?.inputJson, call?.resultJson]).toEqual([largest, largest]);
    const { results } = await by.calls.openCalls({
      runId,
      calls: [
        { tool: "nobody", inputJson: `${largest} ` },
        { tool: "nobody", inputJson: "1" },
      ],
    });
    expect(results.map(({ result }) => result.case)).toEqual(["problem", "opened"]);
    const [refused] = results;
    expect(refused?.result.value).toMatchObject({
      reason: Reason.LIMIT_EXCEEDED,
      metadata: { size: String(MIB + 1), max: String(MIB) },
    });
  });

  test("a request above 4 MiB is refused with FRAME_TOO_LARGE, compressed or not", async () => {
    const { runId } = await openOne(by, { tool: "nobody" });
    const calls = Array.from({ length: 6 }, () => ({
      tool: "nobody",
      inputJson: JSON.stringify("x".repeat(MIB - 2)),
    }));
    const packed = clientsOf(makeTransport({ baseUrl: it.node.url, sendCompression: compressionGzip }));
    for (const clients of [by, packed]) {
      const { error, problem } = await refusalOf(clients.calls.openCalls({ runId, calls }));
      expect([Code[error.code], Reason[problem.reason]]).toEqual(["ResourceExhausted", "FRAME_TOO_LARGE"]);
      expect(await clients.calls.openCalls({ runId, calls: calls.slice(0, 3) })).toMatchObject({
        results: [{}, {}, {}],
      });
    }
  });

  test("fields of a newer client change nothing", async () => {
    const { callId } = await openOne(by, { tool: "nobody" });
    const field = { no: 999, wireType: WireType.Varint, data: new Uint8Array([1]) };
    const request = create(GetCallRequestSchema, { call: { callId } });
    expect(await by.calls.getCall({ ...request, $unknown: [field] })).toMatchObject({ call: { id: callId } });
  });

  test("a request without a key is refused, and one with it is not", async () => {
    const { url: baseUrl } = guarded();
    const { error, problem } = await refusalOf(clientsOf(makeTransport({ baseUrl })).runs.listRuns({}));
    expect([Code[error.code], Reason[problem.reason]]).toEqual(["Unauthenticated", "UNAUTHENTICATED"]);
    await clientsOf(makeTransport({ baseUrl, interceptors: [withKey] })).runs.listRuns({});
  });

  test("a deadline ends a wait here and at the server", async () => {
    const { callId } = await openOne(by, { tool: "nobody" });
    const wait = { calls: [{ callId }], timeout: durationFromMs(30_000) };
    await expect(by.calls.waitCalls(wait, { timeoutMs: 50 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    await until("nothing waits at the server", () => it.node.exchange.waiters.size === 0);
  });

  test("a wait that its client gives up ends at the server", async () => {
    const { callId } = await openOne(by, { tool: "nobody" });
    const leaving = new AbortController();
    const wait = { calls: [{ callId }], timeout: durationFromMs(30_000) };
    const refused = expect(by.calls.waitCalls(wait, { signal: leaving.signal })).rejects.toMatchObject({
      code: Code.Canceled,
    });
    await until("the server waits", () => it.node.exchange.waiters.size === 1);
    leaving.abort();
    await refused;
    await until("nothing waits at the server", () => it.node.exchange.waiters.size === 0);
  });
});

const AT_MOST_ONCE = { mode: PolicyMode.AT_MOST_ONCE };
const NUMBER = "9007199254740993";

/** A call from its open to its outcome, over both streams. */
async function story(makeTransport: MakeTransport): Promise<void> {
  const { url } = it.node;
  const tool = `tool-${randomUUID()}`;
  const work = await WorkClient.open(url, { tools: [tool] }, makeTransport);
  const drive = new DriveClient(url, makeTransport);
  const [runId, request] = [await drive.newRun(), drive.number()];
  drive.send({ opens: [{ request, runId, call: { tool, inputJson: NUMBER, policy: AT_MOST_ONCE } }] });
  const { callId } = await drive.openedAs(request);
  const claim = await work.claimOf(callId);
  expect(claim).toMatchObject({ inputJson: NUMBER, confirm: true });
  work.accept(claim);
  await work.when("the confirmation", () => work.confirmed.includes(claim.claimId));
  work.answer(claim, "1e400");
  expect(await work.refusal(claim.claimId)).toBeUndefined();
  expect(await drive.outcomeOf(callId)).toMatchObject({ resultJson: "1e400" });
  drive.send({ opens: [{ request: drive.number(), runId, call: { tool: "two words" } }] });
  expect(await drive.refusal(request + 1)).toBe("INVALID_FIELD");
  work.halfClose();
  drive.halfClose();
  expect(await Promise.all([work.end(), drive.end()])).toEqual(["ok", "ok"]);
}

async function reflects(service: typeof ServerReflection | typeof AlphaReflection, transport: Transport) {
  async function* asked() {
    yield { messageRequest: { case: "listServices" as const, value: "" } };
  }
  const answers = [];
  for await (const { messageResponse } of createClient(service, transport).serverReflectionInfo(asked())) {
    answers.push(messageResponse.case);
  }
  expect(answers).toEqual(["listServicesResponse"]);
}

const STREAM_CASES: Record<string, (makeTransport: MakeTransport, transport: Transport) => Promise<void>> = {
  [`${WorkerService.typeName}/Work`]: story,
  [`${CallService.typeName}/Drive`]: story,
  [`${RunService.typeName}/WatchRun`]: async (_, transport) => {
    const runs = createClient(RunService, transport);
    const events = runs.watchRun({ runId: "x" })[Symbol.asyncIterator]();
    const { problem } = await refusalOf(events.next());
    expect(problem.reason).toBe(Reason.NOT_FOUND);
    const runId = await it.node.newRun();
    const states: RunState[] = [];
    for await (const { run } of runs.watchRun({ runId })) {
      if (run !== undefined) states.push(run.state);
      if (states.length === 1) await it.node.runs.endRun({ runId });
    }
    expect(states).toEqual([RunState.ACTIVE, RunState.ENDED]);
  },
  [`${Health.typeName}/Watch`]: async (_, transport) => {
    const leaving = new AbortController();
    const { signal } = leaving;
    for await (const { status } of createClient(Health, transport).watch({}, { signal })) {
      expect(status).toBe(Serving.SERVING);
      break;
    }
    leaving.abort();
  },
  [`${ServerReflection.typeName}/ServerReflectionInfo`]: (_, transport) =>
    reflects(ServerReflection, transport),
  [`${AlphaReflection.typeName}/ServerReflectionInfo`]: (_, transport) =>
    reflects(AlphaReflection, transport),
};

describe.each(Object.entries(STREAM_PROTOCOLS))("streams by %s over HTTP/2:", (_protocol, makeTransport) => {
  test.each(Object.entries(STREAM_CASES))("%s", async (_rpc, tells) => {
    const sessionManager = new Http2SessionManager(it.node.url);
    try {
      await tells(
        makeTransport,
        makeTransport({ baseUrl: it.node.url, sessionManager, acceptCompression: [] }),
      );
    } finally {
      sessionManager.abort();
    }
  });

  test("a frame that does not fit ends the stream with its reason", async () => {
    const work = new WorkClient(it.node.url, makeTransport);
    work.send({ grant: 1 });
    expect(await work.end()).toBe("PROTOCOL_VIOLATION");
    const drive = new DriveClient(it.node.url, makeTransport);
    await drive.newRun();
    drive.send({ watch: ["x".repeat(4 * MIB)] });
    expect(await drive.end()).toBe("FRAME_TOO_LARGE");
  });

  test("a stream without a key ends with UNAUTHENTICATED", async () => {
    const work = new WorkClient(guarded().url, makeTransport);
    work.send({ hello: newHello() });
    expect(await work.end()).toBe("UNAUTHENTICATED");
  });
});

describe("over HTTP/1.1", () => {
  test("a stream in both directions is refused to gRPC-Web in its own words", async () => {
    const transport = createGrpcWebTransport({ baseUrl: it.node.url, httpVersion: "1.1" });
    async function* hello() {
      yield { hello: newHello() };
      // It goes on for as long as the answer has not come.
      await new Promise(() => undefined);
    }
    const frames = createClient(WorkerService, transport).work(hello())[Symbol.asyncIterator]();
    const { error, problem } = await refusalOf(frames.next());
    expect([Code[error.code], Reason[problem.reason]]).toEqual(["Unimplemented", "UNIMPLEMENTED"]);
    expect(error.rawMessage).toContain("is a stream in both directions: it needs HTTP/2");
  });

  test("a connection goes on after a request that was refused before it was read", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const transport = createConnectTransport({
      ...{ baseUrl: it.node.url, httpVersion: "1.1", nodeOptions: { agent } },
    });
    const { calls } = clientsOf(transport);
    const refused = calls.openCalls({ runId: "r", calls: [{ tool: "t", inputJson: "x".repeat(5 * MIB) }] });
    await expect(refused).rejects.toMatchObject({ code: Code.ResourceExhausted });
    await within("the next answer", calls.listCalls({}), 5_000);
    agent.destroy();
  });

  test.each([
    ["CallService/WaitCalls", (callId: string) => ({ calls: [{ callId }], timeout: "30s" })],
    [
      "WorkerService/ClaimCalls",
      () => ({ hello: { ...newHello({ tools: ["nobody-asks"] }), number: "0" }, wait: "30s" }),
    ],
  ])("%s says that its deadline has passed to a client that does not look itself", async (rpc, request) => {
    const { callId } = await openOne(clientsOf(PROTOCOLS["Connect with JSON"]!({ baseUrl: it.node.url })), {
      tool: "nobody",
    });
    const response = await fetch(`${it.node.url}/trunkline.v1.${rpc}`, {
      method: "POST",
      headers: { "content-type": "application/json", "connect-timeout-ms": "50" },
      body: JSON.stringify(request(callId)),
    });
    expect([response.status, await response.json()]).toMatchObject([504, { code: "deadline_exceeded" }]);
  });

  test("a request that cannot be read is refused with a Problem", async () => {
    const { reason, status } = await postJson(it.node.url, "CallService/GetCall", "{");
    expect([status, reason]).toEqual([400, "INVALID_FIELD"]);
  });

  test("members of a newer client change nothing", async () => {
    const { reason } = await postJson(it.node.url, "RunService/GetRun", {
      runId: "x",
      fromTheFuture: { a: 1 },
    });
    expect(reason).toBe("NOT_FOUND");
  });
});

test("no request was a fault of the server", () => {
  expect([...it.node.faults, ...guarded().faults]).toEqual([]);
});
