import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { WelcomeSchema } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { acceptedOn, ackOf, answerOn, benches, DRAINED } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";

const bench = benches();
/** So that a stream on which this server says nothing is not dropped. */
const LONG = durationFromMs(10_000);
const WELCOME = create(WelcomeSchema, { node: "peer", heartbeatInterval: LONG });

/** A worker of `echo` on a welcomed stream, which is given `late` as well; the next stream is not welcomed yet. */
async function adding() {
  const hold = gate<unknown>();
  const ran: string[] = [];
  const worker = bench().start(
    { echo: (input) => (input === "hold" ? hold.promise : input) },
    { concurrency: 5 },
  );
  const { stream: old, hello } = await bench().peer.welcomeWork(WELCOME);
  expect(hello.tools).toEqual(["echo"]);
  const held = claimOf({ inputJson: '"hold"' });
  old.send({ claims: [held] });
  await acceptedOn(old);
  worker.add({
    late: (input) => {
      ran.push(String(input));
      return input;
    },
  });
  return { worker, old, held, hold, ran };
}

describe("a tool that is added", () => {
  test("is said on a stream beside the first, which goes on until that is welcomed", async () => {
    const { worker, old, held, hold } = await adding();
    const next = bench().peer.welcomeWork(WELCOME);
    // Whatever stands between the two hellos is carried by the first.
    const early = claimOf({ inputJson: "1" });
    old.send({ claims: [early] });
    const { stream, hello } = await next;
    expect(hello.tools).toEqual(["echo", "late"]);
    expect(worker.tools).toEqual(["echo", "late"]);
    expect(hello.claims.map(({ claimId }) => claimId)).toContain(held.claimId);
    old.fail(new ConnectError("superseded", Code.Aborted));
    const claim = claimOf({ tool: "late", inputJson: "2" });
    stream.send({ claims: [claim] });
    await stream.until(({ answers }) => answers.some(({ claimId }) => claimId === claim.claimId));
    hold.open("held");
    await stream.until(({ answers }) => answers.some(({ claimId }) => claimId === held.claimId));
    expect(bench().peer.workers).toBe(2);
    expect(bench().errors).toEqual([]);
  });

  test("leaves what comes on the first stream after the second one's hello to the server, which offers it again", async () => {
    const { old, ran } = await adding();
    const stream = await bench().peer.work();
    const { hello } = await stream.next();
    const crossed = claimOf({ tool: "late", inputJson: '"crossed"' });
    old.send({ claims: [crossed] });
    expect(hello?.slots).toBe(4);
    const again = { ...crossed, claimId: "again" };
    stream.send({ welcome: WELCOME });
    old.end();
    stream.send({ claims: [again] });
    expect(await acceptedOn(stream)).toEqual(["again"]);
    expect(await answerOn(stream)).toMatchObject({ claimId: "again" });
    expect(ran).toEqual(["crossed"]);
    expect(bench().errors).toEqual([]);
  });

  test("loses no claim and no slot when the second stream is cut before its welcome", async () => {
    const { old, held, hold, ran } = await adding();
    const doomed = await bench().peer.work();
    await doomed.next();
    const crossed = claimOf({ tool: "late", inputJson: '"crossed"' });
    old.send({ claims: [crossed] });
    // Its slot becomes free while nobody knows which stream to tell.
    hold.open("held");
    expect(await answerOn(old)).toMatchObject({ claimId: held.claimId });
    old.send({ acks: [ackOf(held.claimId)] });
    bench().peer.refusal = new ConnectError("not now", Code.Unavailable);
    doomed.fail(new ConnectError("away", Code.Unavailable));
    expect(await acceptedOn(old)).toEqual([crossed.claimId]);
    let freed = 0;
    while (freed < 2) freed += (await old.next()).grant;
    expect(ran).toEqual(["crossed"]);
    bench().peer.refusal = undefined;
    const { hello } = await bench().peer.welcomeWork(WELCOME);
    expect(hello).toMatchObject({ tools: ["echo", "late"], slots: 5 });
    expect(bench().errors).toEqual([]);
  });

  test("during a hello goes into the one after it", async () => {
    const worker = bench().start({ echo: () => 1 });
    const stream = await bench().peer.work();
    expect((await stream.next()).hello?.tools).toEqual(["echo"]);
    worker.add({ b: () => 1 });
    worker.add({ c: () => 1 });
    stream.send({ welcome: WELCOME });
    expect((await bench().peer.welcomeWork(WELCOME)).hello.tools).toEqual(["echo", "b", "c"]);
    expect(bench().peer.workers).toBe(2);
  });

  test("is refused when it has a handler, and no other of the same call is added", () => {
    const worker = bench().start({ echo: () => 1 });
    expect(() => worker.add({ other: () => 1, echo: () => 2 })).toThrow("tools.echo: it has a handler");
    expect(() => worker.add({ "a b": () => 1 })).toThrow("names of 1 to 128");
    expect(worker.tools).toEqual(["echo"]);
  });

  test("to a worker that stops is said to nobody", async () => {
    const worker = bench().start({ echo: () => 1 });
    const { stream } = await bench().peer.welcomeWork(WELCOME);
    const stopped = worker.stop();
    worker.add({ late: () => 1 });
    await stream.until(({ drain }) => drain !== undefined);
    stream.send(DRAINED);
    await stream.farewell();
    await stopped;
    expect(bench().peer.workers).toBe(1);
  });
});
