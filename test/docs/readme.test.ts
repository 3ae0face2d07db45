import { cp, readFile, stat } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DEFAULT_URL } from "../../client/src/server-url.js";
import { DEFAULT_PORT } from "../../server/src/config.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useDatabase } from "../support/database.js";
import { blocksOf, commandsOf, promisedLines, proseOf, type Block } from "./support/markdown.js";
import { Terminal, type RunningCommand } from "./support/terminal.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const TLS = join(ROOT, "test/support/tls");

const readme = await readFile(join(ROOT, "README.md"), "utf8");
const blocks = blocksOf(readme);
const used = new Set<Block>();

/** A block of the README, which then counts as run. */
function take(what: string, fits: (block: Block) => boolean): Block {
  const block = blocks.find(fits);
  if (block === undefined) throw new Error(`the README has no ${what}`);
  used.add(block);
  return block;
}

const file = (name: string): string => take(`file ${name}`, (block) => block.file === name).code;

const shell = (heading: string, text: string): string =>
  take(
    `\`${text}\` under "${heading}"`,
    (block) => block.language === "sh" && block.heading === heading && block.code.includes(text),
  ).code;

/** What the README says between backquotes, from this beginning on. */
function inline(beginning: string): string {
  const quoted = [...proseOf(readme).matchAll(/`([^`]+)`/g)].map(([, text]) => text ?? "");
  const found = quoted.find((text) => text.startsWith(beginning));
  if (found === undefined) throw new Error(`the README does not quote ${beginning}`);
  return found;
}

const database = useDatabase();
let terminal: Terminal;

beforeAll(async () => {
  terminal = await Terminal.open();
});

afterAll(async () => {
  await terminal[Symbol.asyncDispose]();
});

describe("the README's tour", () => {
  let server: RunningCommand;
  let worker: RunningCommand;
  let url: string;

  /** Where the README shows the usual port, the server of the test stands. */
  const here = (command: string): string => command.replaceAll(DEFAULT_URL, url);

  /** Calls the tool whose answer takes days. */
  async function ask(): Promise<{ asking: RunningCommand; answerWith: string }> {
    const skip = worker.lineCount;
    const asking = terminal.start(shell("Answers that take days", "call ask_user"));
    const line = await worker.line(/answer with: /, skip);
    return { asking, answerWith: line.replace(/^.*answer with: /, "") };
  }

  beforeAll(async () => {
    server = terminal.start(shell("Start a server", "trunkline dev"));
    const ready = await server.line(/^ready /);
    url = ready.replace("ready ", "");
    expect(inline("ready ")).toBe(ready.replace(url, `http://127.0.0.1:${DEFAULT_PORT}`));
    expect(DEFAULT_URL).toBe(`http://127.0.0.1:${DEFAULT_PORT}`);
    terminal.env["TRUNKLINE_URL"] = url;

    for (const name of ["worker.mjs", "harness.mjs", "answer.mjs", "settle.mjs"]) {
      await terminal.save(name, file(name));
    }
    worker = terminal.start(inline("node worker.mjs"));
    await worker.line(new RegExp(`^${inline("worker connected")}$`));
  });

  test("keeps the data of its server in the folder that it names", async () => {
    expect((await stat(join(terminal.folder, inline(".trunkline")))).isDirectory()).toBe(true);
  });

  test("has a harness that prints what its comments say", async () => {
    const promised = promisedLines(file("harness.mjs"));
    expect(promised).toHaveLength(4);
    const { status, stdout } = await terminal.run("node harness.mjs");
    expect(stdout.trimEnd().split("\n")).toEqual(promised);
    expect(status).toBe(0);
  });

  test("calls a tool and lists calls from the terminal", async () => {
    const [call = "", list = "", ...rest] = commandsOf(shell("Call it", "trunkline call "));
    expect(rest).toEqual([]);
    const called = await terminal.run(call);
    expect(called).toEqual({ status: 0, stdout: `${inline('{"name"')}\n`, stderr: "" });
    const listed = await terminal.run(list);
    expect(listed.status).toBe(0);
    expect(listed.stdout).toMatch(/^ID +TOOL +STATE .*\n\S+\/1 +crm\.find_customer +succeeded +default /);
    expect(listed.stdout.trimEnd().split("\n")).toHaveLength(6);
  });

  test("declares tools in a file, and has a wrong input refused", async () => {
    await terminal.save("crm.json", file("crm.json"));
    const [put = "", call = "", ...rest] = commandsOf(shell("Declare tools", "toolset put"));
    expect(rest).toEqual([]);
    expect(await terminal.run(put)).toEqual({ status: 0, stdout: `${inline("crm version")}\n`, stderr: "" });
    const refused = await terminal.run(call);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toContain(inline("must have"));
    const right = await terminal.run(call.replace('"mail"', '"email"'));
    expect(right).toEqual({ status: 0, stdout: `${inline('{"name"')}\n`, stderr: "" });
  });

  test("answers a deferred call with the command that its worker prints", async () => {
    const { asking, answerWith } = await ask();
    const answered = await terminal.run(answerWith);
    expect(answered).toMatchObject({ status: 0, stderr: "" });
    expect(await asking.end()).toEqual({ status: 0, stdout: '"yes"\n', stderr: "" });
  });

  test("answers and fails deferred calls from a program, by token", async () => {
    const { code } = take("answer.mjs", (block) => block.file === "answer.mjs");
    await terminal.save("refuse.mjs", code.replace(/^await .*\n\/\/ or: /m, ""));
    const usage = inline("node answer.mjs");
    for (const [command, end] of [
      [usage, { status: 0, stdout: '"yes"\n', stderr: "" }],
      [
        usage.replace("answer", "refuse"),
        { status: 1, stdout: "", stderr: expect.stringContaining("the user is away") },
      ],
    ] as const) {
      const { asking, answerWith } = await ask();
      const token = answerWith.split(" ")[3] ?? "";
      const answered = await terminal.run(command.replace("TOKEN", token));
      expect(answered).toEqual({ status: 0, stdout: "", stderr: "" });
      expect(await asking.end()).toEqual(end);
    }
  });

  test("settles a deferred call from a program, by the id that the list shows", async () => {
    const { asking } = await ask();
    const { stdout } = await terminal.run(inline("npx trunkline calls list --state"));
    const [, id = "none"] = /^(\S+\/1) +ask_user +deferred/m.exec(stdout) ?? [];
    expect(await terminal.run(`node settle.mjs ${id}`)).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(await asking.end()).toEqual({ status: 0, stdout: '"https://reports/42.pdf"\n', stderr: "" });
  });

  test("looks inside with buf and with curl", async () => {
    const [buf = "", curl = "", ...rest] = commandsOf(shell("Look inside with buf", "buf curl")).map(here);
    expect(rest).toEqual([]);
    const byBuf = await terminal.run(buf);
    expect(byBuf).toMatchObject({ status: 0, stderr: "" });
    expect(JSON.parse(byBuf.stdout).calls.length).toBeGreaterThanOrEqual(5);
    const byCurl = await terminal.run(curl.replace("curl", "curl --silent --show-error"));
    expect(byCurl).toMatchObject({ status: 0, stderr: "" });
    expect(JSON.parse(byCurl.stdout).runs.length).toBeGreaterThanOrEqual(2);
  });

  test("ends its worker and its server with Ctrl-C, and nothing is left behind", async () => {
    worker.interrupt();
    expect(await worker.end()).toMatchObject({ status: 0, stderr: "" });
    const [, postgres] = /started PostgreSQL \(process (\d+)\)/.exec(server.stderr) ?? [];
    server.interrupt();
    await server.end();
    expect(server.stderr).toContain(`stopped PostgreSQL (process ${String(postgres)})`);
    expect(() => process.kill(Number(postgres), 0)).toThrow("ESRCH");
  });
});

describe("the README's server for more than trying out", () => {
  const lines = commandsOf(shell("Start a server", "trunkline serve"));
  const serve = (lines.at(-1) ?? "").replace("0.0.0.0", "127.0.0.1");

  /** What an `export` of the block sets: as it stands, or what the command in `$(…)` prints. */
  async function exported(name: string): Promise<string> {
    const line = lines.find((each) => each.startsWith(`export ${name}=`)) ?? "";
    const value = line.slice(line.indexOf("=") + 1).replace("postgres://…", database.url);
    const [, command] = /^\$\((.*)\)$/.exec(value) ?? [];
    return command === undefined ? value : (await terminal.run(command)).stdout.trim();
  }

  beforeAll(async () => {
    await cp(join(TLS, "fixture-cert.pem"), join(terminal.folder, "cert.pem"));
    await cp(join(TLS, "fixture-key.pem"), join(terminal.folder, "key.pem"));
    terminal.env["DATABASE_URL"] = await exported("DATABASE_URL");
  });

  test("does not start as long as there is no key, and says how to make one", async () => {
    const { status, stdout, stderr } = await terminal.run(serve);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(
      /^error: TRUNKLINE_ROOT_KEY: is not set, and the database has no keys; .*trunkline init/m,
    );
  });

  test("serves who has its key, or one that was made with it, over TLS, and nobody else", async () => {
    const key = await exported("TRUNKLINE_KEY");
    expect(key).toMatch(/^tlk_/);
    const serving = terminal.start(serve);
    const url = (await serving.line(/^ready https:/)).replace("ready ", "");
    const client = { TRUNKLINE_URL: url, NODE_EXTRA_CA_CERTS: join(terminal.folder, "cert.pem") };
    const [makeKey = "", makeToken = "", ...rest] = commandsOf(shell("Start a server", "key create"));
    expect(rest).toEqual([]);
    const [worker, token, withWrongKey] = await Promise.all([
      terminal.run(makeKey, { ...client, TRUNKLINE_KEY: key }),
      terminal.run(makeToken, { ...client, TRUNKLINE_KEY: key }),
      terminal.run("npx trunkline calls list", { ...client, TRUNKLINE_KEY: `${key}0` }),
    ]);
    expect([worker.status, token.status]).toEqual([0, 0]);
    expect(withWrongKey).toMatchObject({ status: 1, stdout: "" });
    expect(withWrongKey.stderr).toContain("TRUNKLINE_KEY");

    const shown = [key, worker.stdout.trim(), token.stdout.trim(), `${key}0`];
    const statuses = shown.map((credential) => statusOf(url, `Bearer ${credential}`));
    expect(await Promise.all([...statuses, statusOf(url, undefined)])).toEqual([200, 403, 200, 401, 401]);

    serving.interrupt();
    await serving.end();
    for (const credential of shown) expect(serving.stderr).not.toContain(credential);
  });

  /** The HTTP status of a plain request with this `Authorization`. */
  async function statusOf(url: string, authorization: string | undefined): Promise<number | undefined> {
    const ca = await readFile(join(TLS, "fixture-cert.pem"));
    const path = new URL("/trunkline.v1.RunService/ListRuns", url);
    const headers = { "content-type": "application/json", ...(authorization && { authorization }) };
    return new Promise((resolve, reject) => {
      const asked = request(path, { method: "POST", headers, ca, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.on("error", reject).end("{}");
    });
  }
});

test("every snippet of the README is run, but for the commands that run this test", () => {
  const notRun = blocks.filter((block) => !used.has(block) && block.language !== "");
  expect(notRun.map(({ code }) => code)).toEqual(["npm ci && npm run demo\nnpm ci && npm test"]);
});
