import { randomBytes, randomUUID } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { KeyScope } from "@trunkline/proto/admin";
import { Executor } from "@trunkline/proto/model";
import { beforeAll, describe, expect, test } from "vitest";
import { useNode } from "../node.js";
import { newHello } from "../raw-stream.js";
import { reasonOf, refusalOf } from "../serving.js";
import { ALL_SCOPES, clientsOf } from "./stage.js";

const ROOT = "root-key-of-the-test";
const it = useNode({ rootKey: ROOT });

type Clients = ReturnType<typeof clientsOf>;

/** Two end users of one project, and somebody of another one. */
let ada: Clients;
let eve: Clients;
let other: Clients;

beforeAll(async () => {
  const by = (credential: string): Clients => clientsOf(it.node.url, credential);
  const root = by(ROOT).admin;
  const scopes = [KeyScope.WORKER, KeyScope.HARNESS];
  ada = by((await root.createToken({ namespace: "ada", scopes })).token);
  eve = by((await root.createToken({ namespace: "eve", scopes })).token);
  await root.createProject({ name: "other" });
  other = by((await root.createKey({ name: "all", scopes: ALL_SCOPES, project: "other" })).secret);
});

const newRun = async ({ runs }: Clients, spec = {}): Promise<string> =>
  (await runs.createRun({ spec })).run!.id;

async function open({ calls }: Clients, runId: string, ...specs: readonly { tool: string; key?: string }[]) {
  const { results } = await calls.openCalls({ runId, calls: [...specs] });
  return results.map(({ result }) => (result.case === "opened" ? result.value : expect.fail("not opened")));
}

/** A call that a worker of this caller holds. */
async function claim(by: Clients) {
  const tool = `tool-${randomUUID()}`;
  await open(by, await newRun(by), { tool });
  const hello = newHello({ tools: [tool], slots: 1 });
  const { claims } = await by.workers.claimCalls({ hello, wait: durationFromMs(5_000) });
  const { callId, claimId } = claims[0] ?? expect.fail("no claim came");
  return { callId, claimId, who: { sessionId: hello.sessionId!, nonce: hello.nonce! } };
}

/** The message and metadata of a refusal, without the names that were sent. */
async function words(request: Promise<unknown>, ...sent: readonly string[]): Promise<string> {
  const { problem } = await refusalOf(request);
  const text = JSON.stringify([reasonOf(problem), problem.message, problem.metadata]);
  return sent.reduce((left, name) => left.replaceAll(name, "NAME"), text);
}

describe("B16: what one has oneself", () => {
  test("a run's key is its end user's own: the same one names another run for another, and tells nothing", async () => {
    const spec = { key: "same", labels: { a: "1" } };
    const { run } = await ada.runs.createRun({ spec });
    for (const by of [eve, other]) {
      const made = await by.runs.createRun({ spec: { key: "same", labels: { b: "2" } } });
      expect(made.created).toBe(true);
      expect(made.run!.id).not.toBe(run!.id);
    }
    expect(await ada.runs.createRun({ spec })).toMatchObject({ created: false, run: { id: run!.id } });
  });

  test("calls of one's own beside one of somebody else's do not tell whether that one is there", async () => {
    const [hers, own] = [await newRun(ada), await newRun(eve)];
    await open(ada, hers, { tool: "t", key: "there-----" });
    await open(eve, own, { tool: "t", key: "own" });
    const wait = (key: string) =>
      words(
        eve.calls.waitCalls({
          calls: [
            { runId: own, key: "own" },
            { runId: hers, key },
          ],
          timeout: durationFromMs(0),
        }),
        key,
      );
    expect(await wait("there-----")).toBe(await wait("not there "));
    expect(await wait("there-----")).toContain("NOT_FOUND");
  });

  test("a claim of somebody else's is no claim on a call of one's own", async () => {
    const [hers, own] = [await claim(ada), await claim(eve)];
    const refusals = async (claimId: string) => {
      const named = { callId: own.callId, claimId };
      const { workers } = eve;
      const outcome = { case: "resultJson" as const, value: "1" };
      const { acks } = await workers.answerCalls({ ...own.who, answers: [{ ...named, outcome }] });
      const { ack } = await workers.deferCall({ ...own.who, deferral: named });
      const released = await workers.releaseCalls({ ...own.who, releases: [named] });
      const { lost } = await workers.heartbeat({ ...own.who, claims: [named] });
      const problems = [...acks, ack!, ...released.acks].map(({ problem }) => problem);
      return JSON.stringify([problems, lost]).replaceAll(claimId, "CLAIM");
    };
    const random = randomBytes(hers.claimId.length).toString("base64url").slice(0, hers.claimId.length);
    expect(await refusals(hers.claimId)).toBe(await refusals(random));
    expect((await ada.calls.getCall({ call: { callId: hers.callId } })).call).toMatchObject({ attempt: 1 });
    const { lost } = await ada.workers.heartbeat({ ...hers.who, claims: [hers] });
    expect(lost).toEqual([]);
  });

  test("a page token of one's own that was made to begin at somebody else's call gives one's own calls alone", async () => {
    const first = await newRun(eve);
    const [call] = await open(ada, await newRun(ada), { tool: "t" });
    const second = await newRun(eve);
    for (const runId of [first, second]) await open(eve, runId, { tool: "listed" }, { tool: "listed" });
    const filter = { tool: "listed", pageSize: 1 };
    const { nextPageToken } = await eve.calls.listCalls(filter);
    const [list] = JSON.parse(Buffer.from(nextPageToken, "base64url").toString()) as [string];
    const from = async (callId: string) => {
      const [runId = "", seq] = callId.split("/");
      const pageToken = Buffer.from(JSON.stringify([list, [runId, Number(seq)]])).toString("base64url");
      const { calls } = await eve.calls.listCalls({ ...filter, pageSize: 100, pageToken });
      return calls.map(({ id }) => id);
    };
    const { callId } = call!;
    const neighbour = callId.replace(/.\/1$/, (end) => `${end.startsWith("0") ? "1" : "0"}/1`);
    expect(await from(callId)).toEqual([`${first}/2`, `${first}/1`]);
    expect(await from(neighbour)).toEqual(await from(callId));
  });

  test("another end user's worker does not count as one that was seen (I7)", async () => {
    const [hers, own] = [`tool-${randomUUID()}`, `tool-${randomUUID()}`];
    const work = (by: Clients, tool: string) =>
      by.workers.claimCalls({ hello: newHello({ tools: [tool], slots: 0 }), wait: durationFromMs(0) });
    await Promise.all([work(ada, hers), work(eve, own)]);
    const opened = await open(eve, await newRun(eve), { tool: hers }, { tool: own });
    expect(opened.map(({ noWorker }) => noWorker)).toEqual([true, false]);
    const [again] = await open(ada, await newRun(ada), { tool: hers });
    expect(again!.noWorker).toBe(false);
  });
});

describe("B16: a completion token", () => {
  async function deferred() {
    const id = `set-${randomUUID()}`;
    const { calls, runs, toolsets } = clientsOf(it.node.url, ROOT);
    await toolsets.putToolset({ id, tools: [{ name: "ask", executor: Executor.CLIENT }] });
    const { run } = await runs.createRun({ spec: { namespace: "ada", toolset: id } });
    const [one, two] = await open(ada, run!.id, { tool: "ask" }, { tool: "ask" });
    const { token } = await calls.issueToken({ call: { callId: one!.callId } });
    return { token, callId: one!.callId, otherId: two!.callId };
  }

  test("is good for its own call and attempt alone, whoever's call another one is", async () => {
    const { token, callId, otherId } = await deferred();
    const secret = token.split(".").at(-1)!;
    const [foreign] = await open(other, await newRun(other), { tool: "t" });
    const made = [
      `${otherId}.1.${secret}`,
      `${callId}.2.${secret}`,
      `${foreign!.callId}.1.${secret}`,
      `${callId}.1.${randomBytes(32).toString("base64url")}`,
      `${randomUUID()}/1.1.${secret}`,
      token.slice(0, -1),
      `${token} `,
    ];
    const { tasks } = clientsOf(it.node.url, "nothing");
    const refusals = made.flatMap((text) => [
      words(tasks.getTask({ token: text })),
      words(tasks.completeTask({ token: text, resultJson: "1" })),
      words(tasks.failTask({ token: text, failure: { message: "no" } })),
    ]);
    expect(new Set(await Promise.all(refusals)).size).toBe(1);
    expect((await tasks.getTask({ token })).callId).toBe(callId);
  });

  test("is useless once its call has ended", async () => {
    const { token, callId } = await deferred();
    const { tasks } = clientsOf(it.node.url, "nothing");
    await ada.calls.cancelCall({ call: { callId } });
    expect(await words(tasks.getTask({ token }))).toContain("CALL_ENDED");
    expect(await words(tasks.completeTask({ token, resultJson: "1" }))).toContain("CALL_ENDED");
  });
});

test("a key that a project does not have makes no node read all keys again", async () => {
  const { rows } = await it.database.pool().query("SELECT version FROM access_state");
  for (const keyId of ["0".repeat(24), "nonsense"]) {
    expect(await words(other.admin.revokeKey({ keyId }), keyId)).toContain("NOT_FOUND");
    expect(await words(other.admin.rotateKey({ keyId }), keyId)).toContain("NOT_FOUND");
  }
  expect((await it.database.pool().query("SELECT version FROM access_state")).rows).toEqual(rows);
});

test("a key's name that no text can be is refused as one that there is not", async () => {
  for (const keyId of ["\0", "x\u0000y", "k".repeat(100_000)]) {
    expect(await words(other.admin.revokeKey({ keyId }))).toContain("NOT_FOUND");
    expect(await words(other.admin.rotateKey({ keyId }))).toContain("NOT_FOUND");
  }
  expect(it.node.faults).toEqual([]);
});
