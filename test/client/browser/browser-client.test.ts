import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import {
  BrowserClient,
  connectTrunkline,
  type BrowserOptions,
} from "../../../client/src/browser/browser-client.js";
import { Pace } from "../../../client/src/browser/pace.js";
import type { Call, Run, RunEvent, Trunkline, TrunklineError } from "../../../client/src/index.js";
import { TcpProxy } from "../../support/tcp-proxy.js";
import { lasting, until, within } from "../../support/until.js";
import { useBackend } from "../support/server.js";

const ROOT = "root-key-of-the-test";
const backend = useBackend(ROOT);
let root: Trunkline;

beforeAll(async () => {
  root = backend().client({ key: ROOT });
  await root.toolsets.put("page", {
    "ask.user": { description: "A person answers", executor: "client" },
    search: { description: "A worker answers" },
  });
});
afterAll(() => root.close());

/** Between two looks of a page. */
const QUICK_MS = 100;

/** Ends what a test reads without an end. */
let leaving: AbortController;
beforeEach(() => {
  leaving = new AbortController();
});
afterEach(() => leaving.abort());

let users = 0;
const newUser = (): string => `user-${String(users++)}`;

const tokenOf = async (namespace: string, run?: string): Promise<string> => {
  const { token } = await root.tokens.create({
    namespace,
    scopes: ["harness"],
    ...(run !== undefined && { run }),
  });
  return token;
};

async function pageOf(namespace: string, options: Partial<BrowserOptions> = {}): Promise<BrowserClient> {
  const token = options.token ?? (await tokenOf(namespace));
  return new BrowserClient(
    { url: backend().url, onWarning: () => undefined, ...options, token },
    new Pace(QUICK_MS),
  );
}

const newRun = (namespace: string): Promise<Run> => root.runs.create({ namespace, toolset: "page" });

/** Reads in the background. */
class Follower<T> {
  readonly seen: T[] = [];
  /** How it ended: `done`, or what was thrown. */
  readonly over: Promise<unknown>;

  constructor(items: AsyncIterable<T>) {
    this.over = this.#follow(items);
  }

  get last(): T | undefined {
    return this.seen.at(-1);
  }

  end(): Promise<unknown> {
    return within("the end", this.over);
  }

  async #follow(items: AsyncIterable<T>): Promise<unknown> {
    try {
      for await (const item of items) this.seen.push(item);
      return "done";
    } catch (thrown) {
      return thrown;
    }
  }
}

const keysOf = (calls: readonly Call[] | undefined): string | undefined =>
  calls?.map(({ key }) => key).join();
const reasonAt = async (over: Promise<unknown>): Promise<string> => ((await over) as TrunklineError).reason;
const reasonOf = (asked: Promise<unknown>): Promise<string> =>
  reasonAt(asked.catch((thrown: unknown) => thrown));

describe("the open calls of a page", () => {
  test("are those that its end user is to answer, the oldest first: no worker's, and nobody else's", async () => {
    const [alice, bob] = [newUser(), newUser()];
    const [one, other, bobs] = [await newRun(alice), await newRun(alice), await newRun(bob)];
    await one.open("ask.user", { q: "first" }, { key: "a" });
    await other.open("ask.user", { q: 2 }, { key: "b" });
    await one.open("search", {}, { key: "search" });
    await bobs.open("ask.user", {}, { key: "bobs" });
    const page = await pageOf(alice);
    const all = new Follower(page.openCalls({ signal: leaving.signal }));
    const ofOne = new Follower(page.openCalls({ run: one.id, signal: leaving.signal }));
    const tokenOfOne = new Follower(
      (await pageOf(alice, { token: await tokenOf(alice, one.id) })).openCalls({ signal: leaving.signal }),
    );
    await until("the lists", () => [all, ofOne, tokenOfOne].every(({ seen }) => seen.length > 0));
    expect([all, ofOne, tokenOfOne].map(({ last }) => keysOf(last))).toEqual(["a,b", "a", "a"]);
    expect(all.last?.[0]).toEqual(await root.calls.get({ run: one.id, key: "a" }));
    await page.settle(all.last![0]!, { type: "tool.result", result: 1 });
    await until("it is gone", () => keysOf(all.last) === "b" && keysOf(ofOne.last) === "");
    expect(await reasonAt(new Follower(page.openCalls({ run: bobs.id })).end())).toBe("NOT_FOUND");
  });

  test("of one run come by a stream as they happen, until the run has ended", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    await run.open("ask.user", {}, { key: "before" });
    const page = await pageOf(alice, { transport: "stream" });
    const follower = new Follower(page.openCalls({ run: run.id }));
    await until("what was before", () => keysOf(follower.last) === "before");
    await run.open("search", {}, { key: "search" });
    const call = await run.open("ask.user", {}, { key: "now" });
    await until("what is new", () => keysOf(follower.last) === "before,now");
    await page.settle(call.id, { type: "tool.error", error: "no" });
    await until("what is left", () => keysOf(follower.last) === "before");
    await run.end();
    expect(await follower.end()).toBe("done");
    expect(follower.seen.map(keysOf)).toEqual(["before", "before,now", "before", ""]);
  });

  test("of one run end with the run, also where they are looked at", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    await run.open("ask.user", {}, { key: "a" });
    const page = await pageOf(alice);
    const follower = new Follower(page.openCalls({ run: run.id }));
    await until("the list", () => keysOf(follower.last) === "a");
    await run.end();
    expect(await follower.end()).toBe("done");
    expect(follower.seen.map(keysOf)).toEqual(["a", ""]);
  });

  test("are looked at again at once when one is settled, and when a rest is over that took place meanwhile", async () => {
    const alice = newUser();
    const call = await (await newRun(alice)).open("ask.user", {}, { key: "a" });
    const pace = new Pace(10 * 60_000);
    const page = new BrowserClient({ url: backend().url, token: await tokenOf(alice) }, pace);
    const follower = new Follower(page.openCalls({ signal: leaving.signal }));
    await until("the list", () => keysOf(follower.last) === "a");
    await page.settle(call.id, { type: "tool.result" });
    await until("it is gone", () => keysOf(follower.last) === "");
    const { news } = pace;
    pace.wake();
    await within("the rest", pace.rest(news, undefined));
  });

  test("go on over a restart of the server, and end with the signal's reason", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const abort = new AbortController();
    const page = await pageOf(alice);
    const follower = new Follower(page.openCalls({ signal: abort.signal }));
    await until("the list", () => follower.seen.length === 1);
    await backend().restart(async () => lasting(300));
    await run.open("ask.user", {}, { key: "after" });
    await until("what came after", () => keysOf(follower.last) === "after");
    abort.abort(new Error("enough"));
    expect(await follower.end()).toMatchObject({ message: "enough" });
    const aborted = new Follower(page.openCalls({ signal: AbortSignal.abort(new Error("before")) }));
    expect(await aborted.end()).toMatchObject({ message: "before" });
  });

  test("end with UNAUTHENTICATED when the token is revoked, unless a function gives another", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const made = await root.tokens.create({ namespace: alice, scopes: ["harness"] });
    let token = made.token;
    const fixed = new Follower((await pageOf(alice, { token })).openCalls({ signal: leaving.signal }));
    const renewed = new Follower(
      (await pageOf(alice, { token: async () => token })).openCalls({ signal: leaving.signal }),
    );
    await until("the lists", () => fixed.seen.length + renewed.seen.length === 2);
    token = await tokenOf(alice);
    await root.tokens.revoke(made.id);
    await run.open("ask.user", {}, { key: "after" });
    expect(await reasonAt(fixed.end())).toBe("UNAUTHENTICATED");
    await until("what came after", () => keysOf(renewed.last) === "after");
  });
});

describe("settling from a page", () => {
  test("gives the harness its result, or a failure", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const page = await pageOf(alice);
    const [good, bad] = [await run.open("ask.user"), await run.open("ask.user")];
    expect(await page.settle(good.id, { type: "tool.result", result: { answer: "é€😀" } })).toBe("succeeded");
    const error = { message: "not now", data: { until: "Monday" } };
    expect(await page.settle(bad.id, { type: "tool.error", error })).toBe("failed");
    expect(await good.outcome()).toMatchObject({ state: "succeeded", result: { answer: "é€😀" } });
    expect(await bad.outcome()).toMatchObject({
      error: { kind: "tool", message: "not now", data: { until: "Monday" } },
    });
  });

  test("twice the same changes nothing, and something else is refused, as is the attempt before the last", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const page = await pageOf(alice);
    const yes = { type: "tool.result", result: "yes" } as const;
    const call = await run.open("ask.user");
    expect([await page.settle(call.id, yes), await page.settle(call.id, yes)]).toEqual([
      "succeeded",
      "succeeded",
    ]);
    expect(await reasonOf(page.settle(call.id, { ...yes, result: "no" }))).toBe("CALL_ENDED");
    const again = await run.open("ask.user", null, { policy: { backoff: { initial: "1ms" } } });
    const seen = await root.calls.get(again.id);
    await page.settle(seen, { type: "tool.error", error: "once more", retryable: true });
    await until("the second attempt", async () => (await root.calls.get(again.id)).attempt === 2);
    expect(await reasonOf(page.settle(seen, yes))).toBe("STALE_ATTEMPT");
    expect(await page.settle(again.id, yes)).toBe("succeeded");
  });

  test("another end user's call is not there, and what cannot be sent is refused where it is given", async () => {
    const [alice, bob] = [newUser(), newUser()];
    const call = await (await newRun(bob)).open("ask.user");
    const page = await pageOf(alice);
    const result = { type: "tool.result", result: 1 } as const;
    expect(await reasonOf(page.settle(call.id, result))).toBe("NOT_FOUND");
    expect(await reasonOf(page.settle(call.id, { ...result, attempt: 1 }))).toBe("NOT_FOUND");
    expect(await root.calls.get(call.id)).toMatchObject({ state: "deferred" });
    expect(await reasonOf(page.settle(call.id, { ...result, result: undefined, attempt: 1.5 }))).toBe(
      "INVALID_FIELD",
    );
    expect(await reasonOf(page.settle(call.id, { ...result, result: NaN }))).toBe("INVALID_JSON");
    expect(await reasonOf(page.settle("", result))).toBe("INVALID_FIELD");
  });

  test("is sent again over a cut, for as long as it makes sense", async () => {
    const alice = newUser();
    const call = await (await newRun(alice)).open("ask.user");
    await using proxy = await TcpProxy.start(Number(new URL(backend().url).port));
    const page = await pageOf(alice, { url: proxy.url });
    proxy.hold("up");
    const settling = page.settle(call.id, { type: "tool.result", attempt: 1 });
    await until("it is on its way", () => proxy.open > 0);
    proxy.cut("rst");
    proxy.release();
    expect(await settling).toBe("succeeded");
  });
});

describe.each(["stream", "poll"] as const)("a run that a page watches by %s", (transport) => {
  const idsOf = (events: readonly RunEvent[]): string[] =>
    events.map((event) =>
      event.type === "call" ? `${event.call.key} ${event.call.state}` : event.run.state,
    );

  test("is told as the SDK is told, and goes on from a cursor", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const page = await pageOf(alice, { transport });
    const call = await run.open(
      "ask.user",
      { q: 1 },
      { key: "a", policy: { deferTimeout: "1h30m", totalTimeout: "2d" } },
    );
    const follower = new Follower(page.watchRun(run.id));
    await until("the call", () => follower.seen.length === 2);
    expect(idsOf(follower.seen)).toEqual(["active", "a deferred"]);
    const [, first] = follower.seen;
    await page.settle(call.id, { type: "tool.error", error: { message: "no", data: [1] } });
    await run.end();
    expect(await follower.end()).toBe("done");
    expect(idsOf(follower.seen).slice(2)).toEqual(["a failed", "ended"]);
    const told = new Follower(run.watch());
    const later = new Follower(page.watchRun(run.id, { cursor: first!.cursor }));
    await Promise.all([told.end(), later.end()]);
    expect(idsOf(later.seen)).toContain("a failed");
    expect(follower.seen.slice(2).map(({ cursor: _, ...rest }) => rest)).toEqual(
      [told.seen[1]!, told.seen[0]!].map(({ cursor: _, ...rest }) => rest),
    );
  });

  test("is not there for another end user, and a signal ends it", async () => {
    const alice = newUser();
    const run = await newRun(alice);
    const page = await pageOf(newUser(), { transport });
    // In the server's own words.
    const said = { reason: "NOT_FOUND", code: "NOT_FOUND", message: `there is no run "${run.id}"` };
    expect(await new Follower(page.watchRun(run.id)).end()).toMatchObject(said);
    const abort = new AbortController();
    const own = new Follower((await pageOf(alice, { transport })).watchRun(run.id, { signal: abort.signal }));
    await until("the run", () => own.seen.length > 0);
    abort.abort(new Error("enough"));
    expect(await own.end()).toMatchObject({ message: "enough" });
  });
});

/** How many requests are under way, each time that one is sent. */
function countOpen() {
  const sent: AbortSignal[] = [];
  const open: number[] = [];
  const { fetch: send } = globalThis;
  const fetched = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => {
    sent.push(init!.signal!);
    open.push(sent.filter(({ aborted }) => !aborted).length);
    return send(input, init);
  });
  return { sent, open, fetched };
}

test("a page that polls has one stream open at a time, however many runs it watches (S12)", async () => {
  const alice = newUser();
  const page = await pageOf(alice);
  const runs = await Promise.all(Array.from({ length: 4 }, () => newRun(alice)));
  const { open, fetched } = countOpen();
  const abort = new AbortController();
  const { signal } = abort;
  const followers = runs.map((run) => new Follower(page.watchRun(run.id, { signal })));
  await until("all of them", () => followers.every(({ seen }) => seen.length > 0));
  abort.abort();
  fetched.mockRestore();
  expect(open.length).toBeGreaterThanOrEqual(runs.length);
  expect(Math.max(...open)).toBe(1);
});

test("a page that polls watches a run while it is busy with another's event, as within its loop", async () => {
  const alice = newUser();
  const page = await pageOf(alice);
  const [outer, inner] = [await newRun(alice), await newRun(alice)];
  await inner.open("ask.user", null, { key: "inner" });
  const nested = async (): Promise<string | undefined> => {
    for await (const outside of page.watchRun(outer.id)) {
      expect(outside.type).toBe("run");
      for await (const event of page.watchRun(inner.id)) if (event.type === "call") return event.call.key;
    }
    return undefined;
  };
  expect(await within("the inner run's call", nested())).toBe("inner");
});

test("a page that polls has one stream open, also when one that waited for it is given up", async () => {
  const alice = newUser();
  const page = await pageOf(alice);
  const runs = await Promise.all(Array.from({ length: 3 }, () => newRun(alice)));
  const leavings = runs.map(() => new AbortController());
  const { sent, open, fetched } = countOpen();
  const [first, second, third] = runs.map(
    (run, index) => new Follower(page.watchRun(run.id, { signal: leavings[index]!.signal })),
  );
  await until("the first", () => sent.length === 1);
  leavings[1]!.abort(new Error("enough"));
  expect(await second!.end()).toMatchObject({ message: "enough" });
  await until("the third", () => third!.seen.length > 0);
  leavings.forEach((leave) => leave.abort());
  await Promise.all([first!.end(), third!.end()]);
  fetched.mockRestore();
  expect(Math.max(...open)).toBe(1);
});

describe("a server that is none", () => {
  let server: Server;
  let url: string;
  let answer: [status: number, type: string, body: string];

  beforeAll(async () => {
    server = createServer((_, response) => {
      const [status, type, body] = answer;
      response.writeHead(status, { "content-type": type }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  });
  afterAll(() => server.close());

  test.each<[typeof answer, string]>([
    [[404, "text/html", "<p>no"], "UNIMPLEMENTED"],
    [[401, "text/plain", "no"], "UNAUTHENTICATED"],
    [[403, "application/json", '{"code":"permission_denied","message":"by the proxy"}'], "PERMISSION_DENIED"],
    [
      [500, "application/json", '{"code":"invalid_argument","details":[1,{"type":"trunkline.v1.Problem"}]}'],
      "INVALID_FIELD",
    ],
  ])("which answers %j is told as %s", async (given, reason) => {
    answer = given;
    const page = connectTrunkline({ url, token: "t" });
    expect(await reasonAt(new Follower(page.watchRun("run")).end())).toBe(reason);
  });
});

test.each<[string, unknown]>([
  ["url", { url: "" }],
  ["url", { url: "nowhere" }],
  ["url", { url: "ftp://host" }],
  ["url", { url: "https://user:secret@host" }],
  ["token", { url: "https://host", token: "with space" }],
  ["transport", { url: "https://host", transport: "carrier pigeon" }],
  ["options", { url: "https://host", key: "misspelt" }],
])("an option %s that cannot be is refused, and no secret is shown: %j", (field, options) => {
  const make = (): BrowserClient => connectTrunkline(options as BrowserOptions);
  expect(make).toThrow(expect.objectContaining({ reason: "INVALID_FIELD", metadata: { field } }));
  expect(make).not.toThrow(/secret|with space/);
});
