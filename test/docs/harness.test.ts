import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { Trunkline } from "@trunkline/sdk";
import { createLog, startServer, type Server } from "trunkline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_URL } from "../../client/src/server-url.js";
import { useDatabase } from "../support/database.js";
import { until } from "../support/until.js";
import { blocksOf, promisedLines } from "./support/markdown.js";
import { Terminal } from "./support/terminal.js";

const KEY = "tl_root_0123456789";
const BACKEND_PORT = "8080";

const page = await readFile(fileURLToPath(new URL("../../docs/harness.md", import.meta.url)), "utf8");
const blocks = blocksOf(page);
const used = new Set<string>();

/** A model as `model.mjs` is to export it: it wants to know one thing, and then says what it was told. */
const MODEL = `
import { MockLanguageModelV3 } from "ai/test";
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
const rest = { usage: { inputTokens: tokens, outputTokens: tokens }, warnings: [] };
const input = JSON.stringify({ from: "Oslo", to: "Bergen" });
const call = { type: "tool-call", toolCallId: "toolu_1", toolName: "trains_find", input };
export const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const [told] = prompt.at(-1).role === "tool" ? prompt.at(-1).content : [];
    if (told === undefined) return { content: [call], finishReason: { unified: "tool-calls" }, ...rest };
    const text = "Take " + told.output.value[0].train + ".";
    return { content: [{ type: "text", text }], finishReason: { unified: "stop" }, ...rest };
  },
});
`;

/** What a page has and Node has not: somebody to ask, and an address from which others count. */
const inPage = (origin: string): string => `
const ask = globalThis.fetch;
globalThis.fetch = (to, options) => ask(String(to).startsWith("/") ? "${origin}" + to : to, options);
globalThis.prompt = (question) => (question === "Window or aisle?" ? "aisle" : null);
`;

const database = useDatabase();
let server: Server;
let client: Trunkline;
let terminal: Terminal;
let origin: string;

async function freePort(): Promise<number> {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  taken.close();
  return port;
}

/** The page shows what a loop prints below the loop: what else is in its body stands in between. */
const REST_OF_BODY = /^(?: {2}(?!.*console\.log).*|\})\n/gm;

/** The worker starts at the same time as those who call. */
const NO_WORKER_YET = /^trunkline: no worker for the tool .*\n/gm;

/** Runs a program of the page to its end, which is to print what its comments say. */
async function shows(file: string): Promise<void> {
  used.add(file);
  const code = blocks.find((block) => block.file === file)?.code ?? "";
  const { status, stdout, stderr } = await terminal.run(`node ${file}`);
  const lines = promisedLines(code.replaceAll(REST_OF_BODY, ""));
  expect({ file, status, stdout, stderr: stderr.replaceAll(NO_WORKER_YET, "") }).toEqual({
    ...{ file, status: 0, stdout: lines.map((line) => `${line}\n`).join(""), stderr: "" },
  });
}

/** Starts programs of the page that go on: in one process, which is up sooner than one for each. */
function start(files: readonly string[], flags = ""): void {
  for (const file of files) used.add(file);
  const imports = files.map((file) => `import("./${file}");`).join("");
  terminal.start(`node ${flags} -e '${imports}'`);
}

beforeAll(async () => {
  server = await startServer({
    ...{ databaseUrl: database.url, port: 0, rootKey: KEY, log: createLog("silent") },
    heartbeatIntervalMs: 1_000,
  });
  client = new Trunkline({ url: server.url, key: KEY });
  terminal = await Terminal.open();
  Object.assign(terminal.env, { TRUNKLINE_URL: server.url, TRUNKLINE_KEY: KEY });
  const port = String(await freePort());
  origin = `http://127.0.0.1:${port}`;
  for (const { file = "", code } of blocks) {
    await terminal.save(file, code.replaceAll(DEFAULT_URL, server.url).replace(BACKEND_PORT, port));
  }
  await terminal.save("model.mjs", MODEL);
  await terminal.save("in-page.mjs", inPage(origin));
  start(["worker.mjs", "backend.mjs", "decide.mjs"]);
});

afterAll(async () => {
  await terminal[Symbol.asyncDispose]();
  await client.close();
  await server.stop();
});

describe.concurrent("docs/harness.md", () => {
  test("has a turn that goes on in another process, is answered by a page, and is watched", async () => {
    await shows("first.mjs");
    await until("the backend gives tokens", async () => (await fetch(origin).catch(() => undefined))?.ok);
    start(["page.js"], "--import ./in-page.mjs");
    await shows("rest.mjs");
    await shows("watch.mjs");
  });

  test("has a worker that names its tools, and a call that it leaves open until it is ended by id", async () => {
    const shown = shows("session.mjs");
    shown.catch(() => undefined);
    const left = { tool: "render_report", state: "deferred" } as const;
    await until("the report waits", async () => (await client.calls.list(left)).items[0]);
    await shows("rendered.mjs");
    await shown;
  });

  test("has calls, typed by one declaration, that print what its comments say", () => shows("calls.mjs"));

  test("has a loop of the AI SDK that comes to its answer", () => shows("ai.mjs"));
});

test("every block of docs/harness.md is run, or imported by one that is", () => {
  const imported = blocks.flatMap(({ code }) =>
    [...code.matchAll(/from "\.\/(.*)"/g)].map(([, file]) => file),
  );
  const notRun = blocks.filter(({ file = "" }) => !used.has(file) && !imported.includes(file));
  expect(notRun.map(({ code }) => code)).toEqual([]);
  expect(blocks.length).toBeGreaterThan(10);
});
