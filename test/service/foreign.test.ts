import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { credentials, loadPackageDefinition, type ClientDuplexStream, type GrpcObject } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EventLog } from "../support/event-log.js";
import { useNode } from "./node.js";

const it = useNode();

const PROTO = fileURLToPath(new URL("../../proto", import.meta.url));
const BUF = fileURLToPath(new URL("../../node_modules/.bin/buf", import.meta.url));

/** Frames as a client of another make sees them. */
interface Frame {
  readonly welcome?: { readonly node: string } | null;
  readonly runs?: readonly { readonly run: { readonly id: string } }[];
  readonly opened?: readonly { readonly request: number; readonly callId: string }[];
  readonly outcomes?: readonly {
    readonly callId: string;
    readonly state: string;
    readonly resultJson: string;
  }[];
  readonly claims?: readonly {
    readonly claimId: string;
    readonly callId: string;
    readonly inputJson: string;
  }[];
  readonly acks?: readonly { readonly claimId: string; readonly problem: object | null }[];
  readonly confirmed?: readonly string[];
}

interface Stream {
  readonly seen: EventLog<Frame>;
  readonly ended: Promise<number>;
  write(frame: object): void;
  end(): void;
}

interface Foreign {
  work(): ClientDuplexStream<object, Frame>;
  drive(): ClientDuplexStream<object, Frame>;
  close(): void;
}

function service(name: string, url: string): Foreign {
  const definition = loadSync(["trunkline/v1/worker.proto", "trunkline/v1/call.proto"], {
    includeDirs: [PROTO],
    enums: String,
    defaults: true,
    oneofs: true,
  });
  const { v1 } = loadPackageDefinition(definition)["trunkline"] as GrpcObject & { v1: GrpcObject };
  const Service = v1[name] as unknown as new (address: string, creds: unknown) => Foreign;
  return new Service(new URL(url).host, credentials.createInsecure());
}

function listenTo(stream: ClientDuplexStream<object, Frame>): Stream {
  const seen = new EventLog<Frame>();
  stream.on("data", (frame: Frame) => seen.add(frame));
  stream.on("error", () => undefined);
  return {
    seen,
    ended: new Promise((resolve) => stream.on("status", ({ code }: { code: number }) => resolve(code))),
    write: (frame) => void stream.write(frame),
    end: () => void stream.end(),
  };
}

/** The first item of one kind. */
async function first<T>(
  stream: Stream,
  what: string,
  items: (frame: Frame) => readonly T[] | undefined,
): Promise<T> {
  const frame = await stream.seen.first(what, (each) => (items(each)?.length ?? 0) > 0);
  return items(frame)?.[0] ?? expect.fail(`no ${what}`);
}

describe("grpc-js", () => {
  let workers: Foreign;
  let harnesses: Foreign;
  beforeAll(() => {
    workers = service("WorkerService", it.node.url);
    harnesses = service("CallService", it.node.url);
  });
  afterAll(() => {
    workers.close();
    harnesses.close();
  });

  test("a client made from the proto files opens a call, works it over the stream, and gets its outcome", async () => {
    const work = listenTo(workers.work());
    work.write({
      hello: {
        sessionId: "grpc-js",
        nonce: "0123456789abcdef",
        worker: "grpc-js",
        tools: ["echo"],
        slots: 1,
      },
    });
    await work.seen.first("the worker's welcome", ({ welcome }) => welcome?.node !== undefined);
    const drive = listenTo(harnesses.drive());
    await drive.seen.first("the harness's welcome", ({ welcome }) => welcome?.node !== undefined);
    drive.write({ runs: [{ request: 1, spec: { namespace: "alice" } }] });
    const { run } = await first(drive, "run", ({ runs }) => runs);
    const inputJson = '{"n": 9007199254740993}';
    drive.write({
      opens: [
        {
          request: 2,
          runId: run.id,
          call: { tool: "echo", inputJson, policy: { mode: "POLICY_MODE_AT_MOST_ONCE" } },
        },
      ],
    });
    const { callId } = await first(drive, "opened call", ({ opened }) => opened);
    const claim = await first(work, "claim", ({ claims }) => claims);
    expect(claim).toMatchObject({ callId, inputJson });
    work.write({ accepted: [claim.claimId] });
    expect(await first(work, "confirmation", ({ confirmed }) => confirmed)).toBe(claim.claimId);
    work.write({ answers: [{ claimId: claim.claimId, callId, resultJson: inputJson }] });
    expect(await first(work, "ack", ({ acks }) => acks)).toMatchObject({
      claimId: claim.claimId,
      problem: null,
    });
    expect(await first(drive, "outcome", ({ outcomes }) => outcomes)).toMatchObject({
      callId,
      state: "CALL_STATE_SUCCEEDED",
      resultJson: inputJson,
    });
    work.end();
    drive.end();
    expect(await Promise.all([work.ended, drive.ended])).toEqual([0, 0]);
  });

  test("a stream that breaks the protocol gets a status that is not OK", async () => {
    const work = listenTo(workers.work());
    work.write({ grant: 1 });
    expect(await work.ended).toBe(9);
  });
});

test.each(["connect", "grpc", "grpcweb"])(
  "buf curl opens a call with JSON over h2c, by %s",
  async (protocol) => {
    const runId = await it.node.newRun();
    const { stdout } = await promisify(execFile)(BUF, [
      "curl",
      "--schema",
      PROTO,
      "--protocol",
      protocol,
      "--http2-prior-knowledge",
      "--data",
      JSON.stringify({ runId, calls: [{ tool: "t", inputJson: "[1]", key: protocol }] }),
      `${it.node.url}/trunkline.v1.CallService/OpenCalls`,
    ]);
    expect(JSON.parse(stdout)).toMatchObject({
      results: [{ opened: { callId: `${runId}/1`, key: protocol, created: true } }],
    });
  },
);

test("plain fetch opens, waits for and settles a call with JSON over HTTP/1.1", async () => {
  const post = async (method: string, body: object): Promise<Record<string, unknown>> => {
    const response = await fetch(`${it.node.url}/trunkline.v1.${method}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as Record<string, unknown>;
  };
  const { run } = (await post("RunService/CreateRun", { spec: {} })) as { run: { id: string } };
  await post("CallService/OpenCalls", { runId: run.id, calls: [{ tool: "t", key: "k" }] });
  const call = { callId: `${run.id}/1` };
  const waited = post("CallService/WaitCalls", { calls: [call], timeout: "30s" });
  await post("CallService/SettleCalls", { items: [{ call, settlement: { resultJson: '{"n":1e400}' } }] });
  expect(await waited).toMatchObject({
    settled: true,
    outcomes: [{ ...call, key: "k", state: "CALL_STATE_SUCCEEDED", resultJson: '{"n":1e400}' }],
  });
});

test("a refused request has an HTTP status that is not 200 and a Problem with its reason", async () => {
  const response = await fetch(`${it.node.url}/trunkline.v1.CallService/GetCall`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ call: { callId: "nonsense" } }),
  });
  expect(response.status).toBe(404);
  const { code, details } = (await response.json()) as {
    code: string;
    details: { type: string; debug?: unknown }[];
  };
  expect(code).toBe("not_found");
  expect(details).toMatchObject([{ type: "trunkline.v1.Problem" }]);
});
