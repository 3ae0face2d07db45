import { afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  Trunkline,
  TrunklineError,
  type KeyScope,
  type KeySource,
  type TransportMode,
  type Worker,
} from "../../client/src/index.js";
import { Http1Proxy } from "../support/http1-proxy.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { lasting, until, within } from "../support/until.js";
import { gate } from "./support/claim.js";
import { useBackend } from "./support/server.js";

const ROOT = "root-key-of-the-test";
const backend = useBackend(ROOT);

let root: Trunkline;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(() => {
  root = backend().client({ key: ROOT });
  return () => root.close();
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const any = (value: unknown): never => value as never;

function clientWith(key: KeySource, options: { url?: string; transport?: TransportMode } = {}): Trunkline {
  const client = new Trunkline({ url: backend().url, key, onWarning: () => undefined, ...options });
  cleanups.push(() => client.close());
  return client;
}

const workWith = (client: Trunkline, tools: Parameters<Trunkline["worker"]>[0]["tools"]): Worker =>
  client.worker({ tools, onError: () => undefined });

const keyFor = async (...scopes: KeyScope[]): Promise<string> =>
  (await root.keys.create({ name: "test", scopes })).key;

const reasonOf = (promise: Promise<unknown>): Promise<unknown> =>
  within(
    "its refusal",
    promise.then(
      () => "none",
      (error: unknown) => (error instanceof TrunklineError ? error.reason : error),
    ),
  );

describe("keys", () => {
  test("are made, listed without their secrets, rotated and revoked", async () => {
    const made = await root.keys.create({ name: "billing", scopes: ["harness", "worker"] });
    expect(made).toMatchObject({ name: "billing", scopes: ["worker", "harness"], revokedAt: undefined });
    expect(made.key).toMatch(/^tlk_/);
    const { key, ...info } = made;
    const second = await root.keys.create({ name: "second", scopes: ["harness"] });
    const listed: unknown[] = [];
    for await (const each of await root.keys.list({ pageSize: 1 })) listed.push(each);
    expect(listed).toContainEqual(info);
    expect(JSON.stringify(listed)).not.toContain(key.slice(30));

    const rotated = await root.keys.rotate(made.id, { grace: "1h" });
    expect(rotated).toMatchObject({ id: made.id, name: "billing" });
    for (const good of [key, rotated.key]) await clientWith(good).runs.list();
    const again = await root.keys.rotate(made.id);
    expect(await reasonOf(clientWith(key).runs.list())).toBe("UNAUTHENTICATED");
    expect((await root.keys.revoke(made.id)).revokedAt).toBeInstanceOf(Date);
    expect(await reasonOf(clientWith(again.key).runs.list())).toBe("UNAUTHENTICATED");
    await clientWith(second.key).runs.list();
  });

  test("are rotated with a grace once only, since a repeat would end it; made again where the answer is lost", async () => {
    await using proxy = await Http1Proxy.start(backend().url);
    const client = clientWith(ROOT, { transport: "poll", url: proxy.url });
    const { key, id } = await root.keys.create({ name: "in use", scopes: ["harness"] });
    const lost = proxy.lose("RotateKey");
    expect(await reasonOf(client.keys.rotate(id, { grace: "1h" }))).toBe("UNAVAILABLE");
    await lost;
    await clientWith(key).runs.list();
    void proxy.lose("CreateKey");
    await clientWith((await client.keys.create({ name: "twice", scopes: ["harness"] })).key).runs.list();
    expect(proxy.methods.filter((method) => /RotateKey|CreateKey/.test(method))).toHaveLength(3);
  });

  test("of one project are not another's, and only the root key makes projects", async () => {
    const project = await root.projects.create("acme");
    expect(await root.projects.create("acme")).toEqual(project);
    expect((await root.projects.list()).items.map(({ name }) => name)).toEqual(["acme", "default"]);
    const { key, id } = await root.keys.create({ name: "a", scopes: ["admin"], project: "acme" });
    const acme = clientWith(key);
    expect((await acme.keys.list()).items).toMatchObject([{ id }]);
    expect((await root.keys.list()).items.map((each) => each.id)).not.toContain(id);
    expect(await reasonOf(acme.keys.list({ project: "default" }))).toBe("PERMISSION_DENIED");
    expect(await reasonOf(acme.projects.list())).toBe("PERMISSION_DENIED");
  });
});

describe("tokens", () => {
  test("reach one end user's calls, until they are revoked or their signing key is replaced", async () => {
    const key = clientWith(await keyFor("harness"));
    const before = Date.now();
    const made = await key.tokens.create({ namespace: "ada", scopes: ["harness"], ttl: "2h" });
    expect(Math.abs(made.expiresAt.getTime() - before - 2 * 3_600_000)).toBeLessThan(30_000);
    const ada = clientWith(made.token);
    expect((await ada.runs.create()).info).toMatchObject({ namespace: "ada" });
    expect(await reasonOf(ada.tokens.create({ namespace: "bob", scopes: ["harness"] }))).toBe(
      "PERMISSION_DENIED",
    );
    await root.tokens.revoke(made.id);
    expect(await reasonOf(ada.runs.list())).toBe("UNAUTHENTICATED");

    const run = await root.runs.create({ namespace: "eve" });
    const other = await root.runs.create({ namespace: "eve" });
    const { token } = await root.tokens.create({ namespace: "eve", scopes: ["harness"], run: run.id });
    const eve = clientWith(token);
    await eve.runs.get(run.id);
    expect(await reasonOf(eve.runs.get(other.id))).toBe("NOT_FOUND");
    await root.tokens.rotateSigningKey({ grace: "1h" });
    await eve.runs.get(run.id);
    await root.tokens.rotateSigningKey();
    expect(await reasonOf(eve.runs.get(run.id))).toBe("UNAUTHENTICATED");
  });
});

test.each([
  ["name", () => root.keys.create({ name: "", scopes: ["worker"] })],
  ["scopes", () => root.keys.create({ name: "a", scopes: [] })],
  ["scopes", () => root.keys.create({ name: "a", scopes: any(["root"]) })],
  ["scopes", () => root.keys.create({ name: "a", scopes: ["worker", "worker"] })],
  ["scopes", () => root.keys.create({ name: "a", scopes: any("worker") })],
  ["scopes", () => root.tokens.create({ namespace: "a", scopes: any(["admin"]) })],
  ["namespace", () => root.tokens.create({ namespace: any(undefined), scopes: ["worker"] })],
  ["run", () => root.tokens.create({ namespace: "a", scopes: ["worker"], run: "" })],
  ["ttl", () => root.tokens.create({ namespace: "a", scopes: ["worker"], ttl: any(60) })],
  ["options", () => root.tokens.create(any({ namespace: "a", scopes: ["worker"], tll: "1h" }))],
  ["grace", () => root.keys.rotate("a", { grace: "0s" })],
  ["project", () => root.keys.list({ project: "" })],
  ["id", () => root.keys.revoke("tlk_0123456789abcdef01234567_secret")],
  ["id", () => root.tokens.revoke("eyJhbGciOiJIUzI1NiJ9.e30.secret")],
])("a bad %s is refused before it is sent, and no secret is shown (%#)", async (field, request) => {
  const error: unknown = await request().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field }, code: undefined });
  expect(String(error)).not.toContain("secret");
});

/** The same over streams, and by single requests over HTTP/1.1. */
describe.each(["stream", "poll"] as const)("by transport %s,", (transport) => {
  test.each([
    ["UNAUTHENTICATED", "is not known", (): KeyScope[] => []],
    ["PERMISSION_DENIED", "has another scope", (other: KeyScope): KeyScope[] => [other]],
  ])("%s stops a worker and a harness whose key %s, at once", async (reason, _, scopes) => {
    await using proxy = await TcpProxy.start(Number(new URL(backend().url).port));
    const run = await root.runs.create();
    const clientOf = async (other: KeyScope): Promise<Trunkline> => {
      const [scope] = scopes(other);
      const key = scope === undefined ? "no-such-key" : await keyFor(scope);
      return clientWith(key, { transport, url: proxy.url });
    };
    const worker = workWith(await clientOf("harness"), { echo: () => 1 });
    expect(await reasonOf(worker.done)).toBe(reason);
    expect(worker.status).toBe("stopped");
    const harness = await clientOf("worker");
    expect(await reasonOf(harness.runs.open(run.id).call("echo"))).toBe(reason);
    expect(await reasonOf(harness.runs.create())).toBe(reason);
    const { connections } = proxy;
    expect(connections).toBeLessThan(8);
    await lasting(150);
    expect(proxy.connections).toBe(connections);
  });

  test("a key that is revoked ends its open streams: the worker stops, and waits reject", async () => {
    await using proxy = await TcpProxy.start(Number(new URL(backend().url).port));
    const made = await root.keys.create({ name: "both", scopes: ["worker", "harness"] });
    const client = clientWith(made.key, { transport, url: proxy.url });
    const [started, aborted] = [gate(), gate<unknown>()];
    const worker = workWith(client, {
      slow: (_, { signal }) => {
        started.open();
        return new Promise(() => signal.addEventListener("abort", () => aborted.open(signal.reason)));
      },
    });
    const run = await client.runs.create();
    const turn = run.turn(1);
    const opened = await turn.open("slow", null);
    const waits = [run.call("slow"), opened.outcome(), turn.settled()];
    const reasons = Promise.all(waits.map(reasonOf));
    await started.promise;
    await root.keys.revoke(made.id);
    expect(await reasonOf(worker.done)).toBe("UNAUTHENTICATED");
    expect(await within("its abort", aborted.promise)).toMatchObject({ reason: "UNAUTHENTICATED" });
    expect(await reasons).toEqual(waits.map(() => "UNAUTHENTICATED"));
    const { connections } = proxy;
    await lasting(150);
    expect(proxy.connections).toBe(connections);
    await root.runs.end(run.id);
  });

  test("a key that a function gives is asked for again when the server refuses it: nothing stops", async () => {
    let [asked, current] = [0, ""];
    const replace = async (): Promise<void> => {
      const before = current;
      const made = await root.tokens.create({ namespace: "ada", scopes: ["worker", "harness"] });
      current = made.token;
      if (before !== "") await root.tokens.revoke(idOf(before));
    };
    await replace();
    const client = clientWith(
      async () => {
        asked++;
        return current;
      },
      { transport },
    );
    const worker = workWith(client, { echo: (input) => input });
    const run = await client.runs.create();
    expect(await run.call("echo", 1)).toBe(1);
    // More than have a request of their own.
    const handles = await Promise.all(Array.from({ length: 17 }, () => run.open("later")));
    const outcomes = Promise.all(handles.map((handle) => handle.outcome()));
    for (let rounds = 0; rounds < 2; rounds++) {
      const enough = asked + 21;
      await replace();
      // Nothing but answers that say nothing, by requests: they show as well that it was accepted.
      if (transport === "poll") await until("looks were answered", () => asked >= enough);
      else expect(await run.call("echo", 1)).toBe(1);
    }
    expect(await run.call("echo", 2)).toBe(2);
    const settlement = { type: "tool.result", result: 3 } as const;
    await Promise.all(handles.map(({ id }) => root.calls.settle(id, settlement)));
    expect(new Set((await outcomes).map(({ result }) => result))).toEqual(new Set([3]));
    expect(worker.status).toBe("connected");
    // Refused for good, as of a cache that does not see it.
    await root.tokens.revoke(idOf(current));
    expect(await reasonOf(worker.done)).toBe("UNAUTHENTICATED");
    expect(await reasonOf(run.call("echo", 4))).toBe("UNAUTHENTICATED");
    expect(await reasonOf(client.runs.list())).toBe("UNAUTHENTICATED");
    const before = asked;
    await lasting(150);
    expect(asked).toBe(before);
  });

  test("a function that throws is an outage, until it gives a key or says that there is none", async () => {
    const good = await keyFor("worker", "harness");
    let sealed = 4;
    const client = clientWith(
      () => {
        if (sealed-- > 0) throw new Error("the vault is sealed");
        return good;
      },
      { transport },
    );
    workWith(client, { echo: () => 1 });
    expect(await (await client.runs.create()).call("echo")).toBe(1);
    const signedOut = (): Promise<string> =>
      Promise.reject(new TrunklineError("UNAUTHENTICATED", "signed out"));
    const denied = workWith(clientWith(signedOut, { transport }), { echo: () => 1 });
    await expect(denied.done).rejects.toThrow("key: the function threw: signed out");
    const empty = clientWith(() => any(undefined), { transport });
    await expect(empty.runs.list()).rejects.toThrow(
      "key: of what the function gave, undefined is not a text",
    );
  });
});

test("a token that expires ends its open streams: the worker stops, and waits reject", async () => {
  const made = await root.tokens.create({ namespace: "ada", scopes: ["worker", "harness"], ttl: "1s" });
  const reasons: Promise<unknown>[] = [];
  for (const transport of ["stream", "poll"] as const) {
    const client = clientWith(made.token, { transport });
    reasons.push(reasonOf(workWith(client, { echo: () => 1 }).done));
    reasons.push(reasonOf(client.runs.create().then((run) => run.call("nobody"))));
  }
  expect(await Promise.all(reasons)).toEqual(Array(4).fill("UNAUTHENTICATED"));
  expect(Date.now()).toBeGreaterThanOrEqual(made.expiresAt.getTime());
});

/** What names a token: its `jti`. */
function idOf(token: string): string {
  const [, payload = ""] = token.split(".");
  return (JSON.parse(Buffer.from(payload, "base64url").toString()) as { jti: string }).jti;
}
