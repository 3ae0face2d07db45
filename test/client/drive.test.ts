import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { CallSpecSchema, UnwatchedSchema, type NewCall } from "@trunkline/proto/call";
import { CallState, FailureKind } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Drive } from "../../client/src/drive.js";
import { rawJson, ToolError, Trunkline } from "../../client/src/index.js";
import { Endpoint } from "../../client/src/transport.js";
import { gate } from "./support/claim.js";
import { openedOf, outcomeOf, refusedOf } from "./support/outcome.js";
import { Peer, type DrivePeer } from "./support/peer.js";

let peer: Peer;
let client: Trunkline;
let warnings: string[];
let canceled: string[];
let nextCanceled = gate<string>();

beforeEach(async () => {
  warnings = [];
  canceled = [];
  nextCanceled = gate<string>();
  peer = await Peer.start({
    calls: {
      cancelCall: ({ call }) => {
        canceled.push(call!.callId);
        nextCanceled.open(call!.callId);
        return { callId: call!.callId, state: CallState.CANCELED };
      },
    },
  });
  client = new Trunkline({ url: peer.url, key: "k", onWarning: (message) => warnings.push(message) });
});

afterEach(async () => {
  await client.close();
  await peer.stop();
});

/** The opens of the next frame that has some. */
const opensOn = async (stream: DrivePeer): Promise<NewCall[]> =>
  (await stream.until(({ opens }) => opens.length > 0)).opens;

const openOn = async (stream: DrivePeer): Promise<NewCall> => {
  const opens = await opensOn(stream);
  expect(opens).toHaveLength(1);
  return opens[0]!;
};

const run = () => client.runs.open("r1");

describe("run.call", () => {
  test("opens the call and resolves with its result", async () => {
    const result = run().call(
      "crm.find",
      { email: "a@b.c" },
      {
        key: "k1",
        turn: 3,
        policy: { mode: "at_most_once", attemptTimeout: "5s" },
        traceparent: "00-1-2-01",
        priority: 7,
      },
    );
    const stream = await peer.welcomeDrive();
    expect(stream.header.get("authorization")).toBe("Bearer k");
    const open = await openOn(stream);
    expect(open).toMatchObject({
      runId: "r1",
      call: { tool: "crm.find", inputJson: '{"email":"a@b.c"}', key: "k1", turn: 3, priority: 7 },
    });
    expect(open.call?.policy).toMatchObject({ mode: 2, attemptTimeout: { seconds: 5n } });
    stream.send({ opened: [openedOf(open, 1)], outcomes: [outcomeOf("r1/1", { resultJson: '{"id":1}' })] });
    expect(await result).toEqual({ id: 1 });
  });

  test("a call that did not succeed throws a ToolError that says everything", async () => {
    const result = run().call("charge");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    const failure = {
      kind: FailureKind.WORKER_LOST,
      message: "gone",
      dataJson: '{"at":1}',
      retryable: true,
      outcomeUnknown: true,
    };
    stream.send({ outcomes: [outcomeOf("r1/1", { state: CallState.FAILED, failure })] });
    const error = await result.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ToolError);
    expect(error).toMatchObject({
      name: "ToolError",
      message: "gone",
      kind: "worker_lost",
      data: { at: 1 },
      retryable: true,
      outcomeUnknown: true,
      callId: "r1/1",
    });
  });

  test("input that JSON cannot carry is refused before anything is sent", async () => {
    await expect(run().call("echo", { a: [1n] })).rejects.toMatchObject({ reason: "INVALID_JSON" });
    await expect(run().call("echo", 1, { policy: { attempt_timeout: "5s" } as never })).rejects.toThrow(
      /^policy: "attempt_timeout"; allowed are mode, maxAttempts/,
    );
    await expect(run().call("echo", 1, { policy: { totalTimeout: 5 as never } })).rejects.toThrow(
      /^policy.totalTimeout: 5 has no unit/,
    );
    expect(peer.connections).toBe(0);
  });

  test("an open that no frame can carry is refused alone, and the others go out", async () => {
    const drive = new Drive(new Endpoint({ url: peer.url }), {
      warn: () => undefined,
      cancel: () => undefined,
    });
    // No check of the SDK lets it pass; if one did, the stream would end again and again for everybody.
    const bad = drive.open("r1", create(CallSpecSchema, { tool: "echo", priority: 1.5 }));
    const good = drive.open("r1", create(CallSpecSchema, { tool: "echo" }));
    const refusal = expect(bad).rejects.toMatchObject({ reason: "INVALID_FIELD" });
    await peer.welcomeDrive();
    await refusal;
    const next = await peer.welcomeDrive();
    next.send({ opened: [openedOf(await openOn(next), 1)] });
    expect(await good).toMatchObject({ callId: "r1/1" });
    await drive.close();
  });

  test("an onWarning that throws does no harm", async () => {
    const told = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const loud = new Trunkline({
      url: peer.url,
      onWarning: () => {
        throw new Error("boom");
      },
    });
    const opened = loud.runs.open("r1").open("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [{ ...openedOf(await openOn(stream), 1), noWorker: true }] });
    expect((await opened).id).toBe("r1/1");
    expect(told).toHaveBeenCalledWith("onWarning threw", new Error("boom"));
    told.mockRestore();
    await loud.close();
  });

  test("a refused open is the server's word", async () => {
    const result = run().call("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ refused: [refusedOf(await openOn(stream), Reason.RUN_ENDED)] });
    await expect(result).rejects.toMatchObject({ name: "TrunklineError", reason: "RUN_ENDED" });
  });

  test("an open that the server cannot take now is sent again under the same key", async () => {
    const result = run().call("echo");
    const stream = await peer.welcomeDrive();
    const open = await openOn(stream);
    stream.send({ refused: [refusedOf(open, Reason.UNAVAILABLE)] });
    expect(await openOn(stream)).toEqual(open);
    stream.send({ opened: [openedOf(open, 1)], outcomes: [outcomeOf("r1/1", { resultJson: "1" })] });
    expect(await result).toBe(1);
  });

  test("calls made in one turn of the event loop share one frame, and one stream", async () => {
    const results = Array.from({ length: 50 }, (_, index) => run().call("echo", index));
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    expect(opens.map(({ call }) => call?.inputJson)).toEqual(results.map((_, index) => String(index)));
    expect(new Set(opens.map(({ call }) => call?.key)).size).toBe(50);
    stream.send({ opened: opens.map((open, index) => openedOf(open, index)) });
    // In any order.
    const outcomes = opens.map((_, index) => outcomeOf(`r1/${index}`, { resultJson: String(index) }));
    stream.send({ outcomes: outcomes.toReversed() });
    expect(await Promise.all(results)).toEqual(opens.map((_, index) => index));
    expect(peer.connections).toBe(1);
  });

  test("a frame is closed at 256 KiB unless one item is larger", async () => {
    const large = "x".repeat(300_000);
    const results = [large, "a".repeat(200_000), "b".repeat(200_000)].map((input) =>
      run().call("echo", input),
    );
    const stream = await peer.welcomeDrive();
    for (const input of [large[0], "a", "b"]) {
      expect((await openOn(stream)).call?.inputJson[1]).toBe(input);
    }
    for (const result of results) result.catch(() => undefined);
  });

  test("the tools of a run are functions", async () => {
    const tools = run().tools<{ crm: { find(input: { id: number }): { name: string } } }>();
    const customer = tools.crm.find({ id: 1 }, { key: "k" });
    const stream = await peer.welcomeDrive();
    const open = await openOn(stream);
    expect(open.call).toMatchObject({ tool: "crm.find", inputJson: '{"id":1}', key: "k" });
    stream.send({
      opened: [openedOf(open, 1)],
      outcomes: [outcomeOf("r1/1", { resultJson: '{"name":"n"}' })],
    });
    expect((await customer).name).toBe("n");
  });
});

describe("when the connection is cut", () => {
  test("opens without an acknowledgement are sent again with the same keys, outcomes are watched", async () => {
    const stored = run().open("echo", 1);
    const first = await peer.welcomeDrive();
    first.send({ opened: [openedOf(await openOn(first), 1)] });
    const outcome = (await stored).outcome();
    const unstored = run().call("echo", 2);
    const sent = await openOn(first);
    peer.cut();
    const second = await peer.welcomeDrive();
    const frame = await second.until(({ opens }) => opens.length > 0);
    expect(frame.opens).toEqual([sent]);
    expect(frame.watch).toEqual(["r1/1"]);
    second.send({ opened: [openedOf(sent, 2, { created: false })] });
    second.send({
      outcomes: [outcomeOf("r1/2", { resultJson: "22" }), outcomeOf("r1/1", { resultJson: "11" })],
    });
    expect(await unstored).toBe(22);
    expect(await outcome).toMatchObject({ state: "succeeded", result: 11, resultJson: "11" });
  });

  test("a call that nobody waits for is not watched, until somebody does", async () => {
    const opening = run().open("echo");
    const first = await peer.welcomeDrive();
    first.send({ opened: [openedOf(await openOn(first), 1)] });
    const handle = await opening;
    peer.cut();
    await first.over;
    const outcome = handle.outcome();
    const second = await peer.welcomeDrive();
    expect((await second.next()).watch).toEqual(["r1/1"]);
    second.send({ outcomes: [outcomeOf("r1/1")] });
    expect(await outcome).toMatchObject({ state: "succeeded" });
  });

  test("a call waits across a restart of the server, and the user is told once", async () => {
    const opening = run().open("echo");
    const first = await peer.welcomeDrive();
    first.send({ opened: [openedOf(await openOn(first), 1)] });
    const outcome = (await opening).outcome();
    await peer.stop();
    await expect.poll(() => warnings, { timeout: 10_000 }).toHaveLength(1);
    expect(warnings[0]).toMatch(/no answer from http:.*calls wait until the server is there/);
    await peer.listen();
    const second = await peer.welcomeDrive();
    await second.until(({ watch }) => watch.includes("r1/1"));
    second.send({ outcomes: [outcomeOf("r1/1", { resultJson: "3" })] });
    expect(await outcome).toMatchObject({ result: 3 });
    expect(warnings).toHaveLength(1);
  });

  test("a server that falls silent is dropped after three pings without an answer (B22)", async () => {
    const result = run().call("echo");
    result.catch(() => undefined);
    const stream = await peer.welcomeDrive({ silent: true });
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    await stream.until(({ ping }) => ping !== undefined);
    await stream.over;
    await peer.welcomeDrive();
  });

  test("pings that are answered keep an idle stream for as long as a call waits", async () => {
    const result = run().call("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    for (let beats = 0; beats < 6; beats++) {
      await stream.until(({ ping }) => ping !== undefined);
    }
    stream.send({ outcomes: [outcomeOf("r1/1")] });
    await result;
    expect(peer.connections).toBe(1);
  });

  test.each([
    [Code.Unauthenticated, "UNAUTHENTICATED"],
    [Code.PermissionDenied, "PERMISSION_DENIED"],
  ])("code %d rejects everything that waits with %s, and the next call tries anew", async (code, reason) => {
    peer.refusal = new ConnectError("no", code);
    await expect(Promise.all([run().call("echo"), run().open("echo")])).rejects.toMatchObject({ reason });
    peer.refusal = undefined;
    const result = run().call("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)], outcomes: [outcomeOf("r1/1")] });
    await result;
  });

  test("on a goaway the next stream takes over before the old one ends", async () => {
    const result = run().call("echo");
    const old = await peer.welcomeDrive();
    old.send({ opened: [openedOf(await openOn(old), 1)] });
    old.send({ goaway: { $typeName: "trunkline.v1.Goaway", message: "bye" } });
    const next = await peer.welcomeDrive();
    expect((await next.next()).watch).toEqual(["r1/1"]);
    await old.halfClosed();
    old.end();
    next.send({ outcomes: [outcomeOf("r1/1", { resultJson: "5" })] });
    expect(await result).toBe(5);
    expect(peer.connections).toBe(2);
  });
});

describe("an abort", () => {
  test("of a call that is stored ends the wait and cancels the call", async () => {
    const abort = new AbortController();
    const result = run().call("echo", 1, { signal: abort.signal });
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    // The abort must find it stored.
    const handle = run().open("echo", 2);
    stream.send({ opened: [openedOf(await openOn(stream), 2)] });
    await handle;
    abort.abort();
    await expect(result).rejects.toMatchObject({ name: "AbortError" });
    expect(await nextCanceled.promise).toBe("r1/1");
  });

  test("of a call that was never sent takes it back", async () => {
    await peer.stop();
    const abort = new AbortController();
    const result = run().call("echo", 1, { signal: abort.signal });
    abort.abort(new Error("changed my mind"));
    await expect(result).rejects.toThrow("changed my mind");
    await peer.listen();
    const other = run().call("echo", 2);
    const stream = await peer.welcomeDrive();
    const open = await openOn(stream);
    expect(open.call?.inputJson).toBe("2");
    stream.send({ opened: [openedOf(open, 1)], outcomes: [outcomeOf("r1/1")] });
    await other;
    expect(canceled).toEqual([]);
  });

  test("of a call that may have arrived cancels it when its number is known", async () => {
    const abort = new AbortController();
    const result = run().call("echo", 1, { signal: abort.signal });
    const stream = await peer.welcomeDrive();
    const open = await openOn(stream);
    abort.abort();
    await expect(result).rejects.toMatchObject({ name: "AbortError" });
    stream.send({ opened: [openedOf(open, 4)] });
    expect(await nextCanceled.promise).toBe("r1/4");
  });

  test("of an outcome's wait leaves the call alone", async () => {
    const opening = run().open("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    const handle = await opening;
    await expect(handle.outcome({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: "AbortError",
    });
    const outcome = handle.outcome();
    stream.send({ outcomes: [outcomeOf("r1/1")] });
    await outcome;
    expect(canceled).toEqual([]);
  });

  test("of a signal that many calls share cancels each, and draws no warning of a leak", async () => {
    const abort = new AbortController();
    const leaks: Error[] = [];
    const onLeak = (warning: Error): void => void leaks.push(warning);
    process.on("warning", onLeak);
    const results = Array.from({ length: 30 }, () => run().call("echo", 1, { signal: abort.signal }));
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    expect(opens).toHaveLength(30);
    abort.abort();
    const settled = await Promise.allSettled(results);
    expect(settled.every(({ status }) => status === "rejected")).toBe(true);
    process.off("warning", onLeak);
    expect(leaks).toEqual([]);
  });
});

describe("a handle", () => {
  test("of a key that was opened before gets the outcome even if it came long ago", async () => {
    const first = run().call("echo", 1, { key: "k" });
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)], outcomes: [outcomeOf("r1/1")] });
    await first;
    const second = run().call("echo", 1, { key: "k" });
    stream.send({ opened: [openedOf(await openOn(stream), 1, { created: false })] });
    expect((await stream.until(({ watch }) => watch.length > 0)).watch).toEqual(["r1/1"]);
    stream.send({ outcomes: [outcomeOf("r1/1", { resultJson: "1" })] });
    expect(await second).toBe(1);
  });

  test("of a call that can no longer be watched rejects", async () => {
    const opening = run().open("echo");
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf(await openOn(stream), 1)] });
    const outcome = (await opening).outcome();
    const problem = create(ProblemSchema, { reason: Reason.NOT_FOUND, message: "no such call" });
    stream.send({ unwatched: [create(UnwatchedSchema, { callId: "r1/1", problem })] });
    await expect(outcome).rejects.toMatchObject({ reason: "NOT_FOUND" });
  });

  test("knows a failure as an outcome, with its result's digits as they were written", async () => {
    const opening = Promise.all([run().open("a", rawJson("9007199254740993")), run().open("b")]);
    const stream = await peer.welcomeDrive();
    const [a, b] = await opensOn(stream);
    expect(a!.call?.inputJson).toBe("9007199254740993");
    stream.send({ opened: [openedOf(a!, 1), openedOf(b!, 2)] });
    stream.send({
      outcomes: [
        outcomeOf("r1/1", { resultJson: "9007199254740993" }),
        outcomeOf("r1/2", {
          state: CallState.CANCELED,
          failure: { kind: FailureKind.CANCELED, message: "m" },
        }),
      ],
    });
    const [first, second] = await opening;
    expect(await first.outcome()).toMatchObject({ resultJson: "9007199254740993" });
    expect(await second.outcome()).toMatchObject({
      state: "canceled",
      error: { kind: "canceled", message: "m" },
    });
    expect(await second.cancel()).toBe("canceled");
  });
});

test("an outcome that cannot be read fails its own call and no other (I11)", async () => {
  const bad = run().call("echo", 1);
  const good = run().call("echo", 2);
  const stream = await peer.welcomeDrive();
  const opens = await opensOn(stream);
  stream.send({ opened: opens.map((open, index) => openedOf(open, index)) });
  stream.send({ outcomes: [outcomeOf("r1/0", { resultJson: "{" }), outcomeOf("r1/1", { resultJson: "2" })] });
  await expect(bad).rejects.toMatchObject({ reason: "INTERNAL" });
  expect(await good).toBe(2);
  expect(peer.connections).toBe(1);
});

test("a tool without workers is said once", async () => {
  const results = [run().open("lonely"), run().open("lonely"), run().open("other")];
  const stream = await peer.welcomeDrive();
  const opens = await opensOn(stream);
  stream.send({ opened: opens.map((open, index) => openedOf(open, index, { noWorker: index < 2 })) });
  await Promise.all(results);
  expect(warnings).toEqual([expect.stringContaining("no worker for the tool lonely")]);
});

test("closing the client rejects what waits, at once", async () => {
  const result = run().call("echo");
  await peer.welcomeDrive();
  const rejected = expect(result).rejects.toMatchObject({ reason: "CLOSED" });
  await client.close();
  await rejected;
  await expect(run().call("echo")).rejects.toMatchObject({ reason: "CLOSED" });
});
