import { createLog, startServer, type Server } from "trunkline";
import { Trunkline } from "@trunkline/sdk";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { CERTIFICATE, PRIVATE_KEY } from "../nodes/support/proxy-process.js";
import { bundleForBrowser } from "../support/browser-bundle.js";
import { CHROMIUM, Chromium, type Tab } from "../support/chromium.js";
import { useDatabase } from "../support/database.js";
import { lasting, until } from "../support/until.js";
import { PageServer, type PageSeen, type PageSetup } from "./page-server.js";

const ROOT = "root-key-of-the-test";
const TLS = { cert: CERTIFICATE, key: PRIVATE_KEY };
const title = CHROMIUM === undefined ? " (skipped: chromium is not installed)" : "";

describe.runIf(CHROMIUM)(`pages in a real Chromium${title}`, () => {
  const database = useDatabase();
  let chromium: Chromium;
  let pages: PageServer;
  let strangers: PageServer;
  let servers: Readonly<Record<"HTTP/1.1" | "HTTP/2", Server>>;
  let root: Trunkline;
  const tabs: Tab[] = [];

  const startNode = (tls?: typeof TLS): Promise<Server> =>
    startServer({
      ...{
        databaseUrl: database.url,
        port: 0,
        rootKey: ROOT,
        log: createLog("error"),
        heartbeatIntervalMs: 500,
      },
      ...{ corsOrigins: [pages.origin], ...(tls !== undefined && { tls }) },
    });

  beforeAll(async () => {
    const { code } = await bundleForBrowser();
    [pages, strangers] = [await PageServer.start(code), await PageServer.start(code)];
    servers = { "HTTP/1.1": await startNode(), "HTTP/2": await startNode(TLS) };
    root = new Trunkline({ url: servers["HTTP/1.1"].url, key: ROOT, onWarning: () => undefined });
    await root.toolsets.put("page", {
      ask: { description: "A person answers", executor: "client" },
      search: { description: "A worker answers" },
    });
    chromium = await Chromium.start();
  });
  afterEach(async () => {
    await Promise.all(tabs.splice(0).map((tab) => tab.close()));
  });
  afterAll(async () => {
    await chromium[Symbol.asyncDispose]();
    await root.close();
    await Promise.all(Object.values(servers).map((server) => server.stop({ graceMs: 200 })));
    await Promise.all([pages, strangers].map((each) => each[Symbol.asyncDispose]()));
  });

  let users = 0;
  const newUser = (): string => `user-${String(users++)}`;
  const newRun = (namespace: string) => root.runs.create({ namespace, toolset: "page" });

  async function open(setup: PageSetup & { namespace: string }, from = pages): Promise<Tab> {
    const { namespace, ...rest } = setup;
    const { token } = await root.tokens.create({ namespace, scopes: ["harness"] });
    const tab = await chromium.open(from.at({ token, ...rest }));
    tabs.push(tab);
    return tab;
  }

  const seen = (tab: Tab): Promise<PageSeen> => tab.evaluate<PageSeen>("seen");
  const lists = (tab: Tab, keys: string): Promise<boolean> =>
    until(`the list is "${keys}"`, async () => (await seen(tab)).lists.at(-1) === keys);

  describe.each(["HTTP/1.1", "HTTP/2"] as const)("over %s", (protocol) => {
    test("one sees a call that a harness opens and settles it, and the harness goes on; nobody else sees it", async () => {
      const { url } = servers[protocol];
      const [alice, bob] = [newUser(), newUser()];
      const [page, foreign] = [await open({ url, namespace: alice }), await open({ url, namespace: bob })];
      await Promise.all([lists(page, ""), lists(foreign, "")]);
      const run = await newRun(alice);
      await run.open("search", {}, { key: "search" });
      const call = await run.open("ask", { q: "Ärger? 😀" }, { key: "ask" });
      await lists(page, "ask");
      expect(await page.evaluate("calls[0].input")).toEqual({ q: "Ärger? 😀" });
      const settle =
        'page.settle(ID, { type: "tool.result", result: { is: "so" } }).catch(({ reason }) => reason)';
      const id = JSON.stringify(call.id);
      expect(await foreign.evaluate(settle.replace("ID", id))).toBe("NOT_FOUND");
      expect(await page.evaluate(settle.replace("ID", "calls[0]"))).toBe("succeeded");
      expect(await call.outcome()).toMatchObject({ state: "succeeded", result: { is: "so" } });
      await lists(page, "");
      expect((await seen(foreign)).lists).toEqual([""]);
    });

    test("one that watches a run is told of all, and goes on where it was when it is loaded anew", async () => {
      const alice = newUser();
      const run = await newRun(alice);
      const before = await run.open("ask", {}, { key: "before" });
      const tab = await open({ url: servers[protocol].url, namespace: alice, run: run.id, only: true });
      await until("the call", async () => (await seen(tab)).events.length === 2);
      expect((await seen(tab)).events).toEqual(["active", "before deferred"]);
      await lists(tab, "before");
      await tab.evaluate('page.settle(calls[0], { type: "tool.error", error: "no" })');
      await until("its end", async () => (await seen(tab)).events.includes("before failed"));
      expect(await before.outcome()).toMatchObject({ state: "failed", error: { message: "no" } });
      await run.open("ask", {}, { key: "meanwhile" });
      await until("the next", async () => (await seen(tab)).events.includes("meanwhile deferred"));
      await tab.reload();
      await lists(tab, "meanwhile");
      await run.open("ask", {}, { key: "after" });
      await until("what came after", async () => (await seen(tab)).events.includes("after deferred"));
      // What was seen may come again, but a watch from the beginning begins with the run.
      expect((await seen(tab)).events).not.toContain("active");
      await run.end();
      await until("the end", async () => (await seen(tab)).over === "done");
      expect((await seen(tab)).events).toContain("ended");
    });

    test("ten tabs that list and watch leave room for each other: all see a call, and one settles it (S12)", async () => {
      const alice = newUser();
      const run = await newRun(alice);
      const setup = { url: servers[protocol].url, namespace: alice, run: run.id, only: true };
      const all: Tab[] = [];
      for (let i = 0; i < 10; i++) all.push(await open(setup));
      const call = await run.open("ask", {}, { key: "ask" });
      await Promise.all(all.map((tab) => lists(tab, "ask")));
      const settling = 'page.settle(calls[0], { type: "tool.result" }).catch(({ reason }) => reason)';
      expect(await all.at(-1)!.evaluate(settling)).toBe("succeeded");
      await call.outcome();
      await Promise.all(all.map((tab) => lists(tab, "")));
      const told = async (tab: Tab): Promise<boolean> => (await seen(tab)).events.includes("ask succeeded");
      await Promise.all(all.map((tab) => until("its end", () => told(tab))));
    });
  });

  test("one whose token is revoked is told UNAUTHENTICATED", async () => {
    const alice = newUser();
    const made = await root.tokens.create({ namespace: alice, scopes: ["harness"] });
    const run = await newRun(alice);
    for (const { url } of Object.values(servers)) {
      tabs.push(await chromium.open(pages.at({ url, token: made.token, run: run.id })));
    }
    await Promise.all(tabs.map((tab) => until("the run", async () => (await seen(tab)).events.length > 0)));
    await root.tokens.revoke(made.id);
    const gone = { ended: "UNAUTHENTICATED", over: "UNAUTHENTICATED" };
    await Promise.all(
      tabs.map((tab) =>
        until("the end", async () => {
          const { ended, over } = await seen(tab);
          return ended === gone.ended && over === gone.over;
        }),
      ),
    );
  });

  test("one of an origin that is not named gets nothing, and is told what may be wrong", async () => {
    const alice = newUser();
    await (await newRun(alice)).open("ask");
    const tab = await open({ url: servers["HTTP/1.1"].url, namespace: alice }, strangers);
    const [warning = ""] = await until("a warning", async () => {
      const { warnings } = await seen(tab);
      return warnings.length > 0 && warnings;
    });
    expect(warning).toContain(`does its --cors-origin name ${strangers.origin}?`);
    expect((await seen(tab)).lists).toEqual([]);
  });

  test("one that nobody sees looks seldom, and at once when it shows again", async () => {
    const alice = newUser();
    const tab = await open({ url: servers["HTTP/2"].url, namespace: alice });
    await lists(tab, "");
    const hide = (hidden: boolean): Promise<unknown> =>
      tab.evaluate(`Object.defineProperty(document, "hidden", { value: ${String(hidden)}, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await hide(true);
    // The look that was due while it was seen.
    await lasting(2_500);
    await (await newRun(alice)).open("ask", {}, { key: "ask" });
    await lasting(3_000);
    expect((await seen(tab)).lists).toEqual([""]);
    await hide(false);
    await lists(tab, "ask");
  });
});
