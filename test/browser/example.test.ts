import { createLog, startServer, type Server } from "trunkline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort } from "../../server/src/embedded/launch.js";
import { Trunkline } from "@trunkline/sdk";
import { runExample, startExample, type ExampleProgram } from "../examples/example-program.js";
import { CHROMIUM, Chromium } from "../support/chromium.js";
import { useDatabase } from "../support/database.js";
import { until } from "../support/until.js";

const ROOT = "root-key-of-the-test";
const title = CHROMIUM === undefined ? " (skipped: chromium is not installed)" : "";

describe.runIf(CHROMIUM)(`examples/browser-tools${title}`, () => {
  const database = useDatabase();
  let server: Server;
  let web: ExampleProgram;
  let origin: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    const port = await findFreePort();
    origin = `http://localhost:${String(port)}`;
    server = await startServer({
      ...{
        databaseUrl: database.url,
        port: 0,
        rootKey: ROOT,
        log: createLog("silent"),
        corsOrigins: [origin],
      },
    });
    env = { TRUNKLINE_URL: server.url, TRUNKLINE_KEY: ROOT, PORT: String(port) };
    web = startExample("browser-tools/serve.mjs", [], env);
    await web.line(origin);
  });
  afterAll(async () => {
    web.child.kill("SIGTERM");
    await web.ended;
    await server.stop({ graceMs: 200 });
  });

  test("a user answers in the page what the harness asks; another user is not shown it", async () => {
    await using chromium = await Chromium.start();
    const [page, other] = [
      await chromium.open(`${origin}/?user=mara`),
      await chromium.open(`${origin}/?user=ines`),
    ];
    const text = (): Promise<string> => page.evaluate("document.body.innerText");
    const asked = runExample("browser-tools/harness.mjs", ["mara", "Which room?", "Red", "Blue"], env);
    await until("the question", async () => (await text()).includes("Which room?"));
    const click = (label: string): Promise<unknown> =>
      page.evaluate(
        `[...document.querySelectorAll("button")].find((b) => b.textContent === "${label}").click()`,
      );
    await click("Blue");
    expect((await asked).stdout).toEqual([
      JSON.stringify({ user: "mara", question: "Which room?", answer: { choice: "Blue" } }),
    ]);
    await until("it is gone", async () => !(await text()).includes("Which room?"));
    expect(await other.evaluate("document.body.innerText")).not.toContain("Which room?");

    const refused = runExample("browser-tools/harness.mjs", ["mara", "Which key?"], env);
    await until("the next", async () => (await text()).includes("Which key?"));
    await click("Rather not say");
    expect((await refused).stdout).toEqual([expect.stringContaining("the user would rather not say")]);
  });

  test("the page gets no token from whoever only reads files", async () => {
    const files = [
      "/",
      "/page.mjs",
      "/sdk/browser/index.js",
      "/../package.json",
      "/sdk/../../package.json",
      "/serve",
    ];
    const answers = await Promise.all(files.map((file) => fetch(origin + file)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 404, 404, 404]);
    const root = new Trunkline({ url: server.url, key: ROOT });
    const { token } = (await (await fetch(`${origin}/session?user=mara`)).json()) as { token: string };
    const mara = new Trunkline({ url: server.url, key: token });
    const run = await root.runs.create({ namespace: "ines" });
    await expect(mara.runs.get(run.id)).rejects.toMatchObject({ reason: "NOT_FOUND" });
    await Promise.all([root.close(), mara.close()]);
  });
});
