import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { makeProgram } from "../../server/src/cli/program.js";
import { trunkline } from "./command.js";

const COMMANDS = [
  "dev",
  "serve",
  "init",
  "migrate",
  "key create",
  "key list",
  "key revoke",
  "key rotate",
  "token create",
  "token revoke",
  "token rotate-signing-key",
  "project create",
  "project list",
  "toolset put",
  "toolset list",
  "toolset show",
  "run create",
  "run list",
  "run show",
  "run watch",
  "run end",
  "call",
  "calls list",
  "calls show",
  "calls cancel",
  "settle",
  "complete",
  "fail",
  "conformance",
];

/** A port that nobody listens on: the discard service's. */
const NOWHERE = { TRUNKLINE_URL: "http://127.0.0.1:9" };

/** The help of a command, without a process for each. */
function helpOf(names: readonly string[]): string {
  let command = makeProgram();
  for (const name of names) {
    const sub = command.commands.find((each) => each.name() === name);
    command = sub ?? expect.fail(`there is no command ${names.join(" ")}`);
  }
  let help = "";
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
    getOutHasColors: () => false,
    getOutHelpWidth: () => 80,
  });
  command.outputHelp();
  return help;
}

describe("help", () => {
  test.each(["", ...COMMANDS])("of `trunkline %s` says what it does, with an example", (command) => {
    const help = helpOf(command.split(" ").filter(Boolean));
    expect(help).toContain(`Usage: trunkline ${command}`);
    expect(help).toContain("--json");
    expect(help).toMatch(/\nExample:\n {2}\$ .*trunkline/);
  });

  test("is there for every command", () => {
    const groups = makeProgram().commands.map((command) => [command, ...command.commands]);
    const leaves = groups.flatMap(([first, ...subs]) =>
      subs.length === 0 ? [first?.name()] : subs.map((sub) => `${first?.name() ?? ""} ${sub.name()}`),
    );
    expect(leaves).toEqual(COMMANDS);
  });

  test("is what is printed, with status 0", async () => {
    const { status, stdout, stderr } = await trunkline(["key", "create", "--help"]);
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: helpOf(["key", "create"]), stderr: "" });
  });

  test("says that a key on the command line is visible to others", async () => {
    const { stdout } = await trunkline(["call", "--help"]);
    expect(stdout.replace(/\s+/g, " ")).toContain("other users of this machine can see a command line");
  });

  test("what is read by another program has no colours, whatever the environment makes of itself", async () => {
    const env = { CI: "1", TERM: "xterm-256color" };
    const help = await trunkline(["--help"], { env });
    const error = await trunkline(["calls"], { env });
    const said = await trunkline(["call", "a.tool", "{}"], { env: { ...env, ...NOWHERE } });
    expect([help, error, said].map(({ stdout, stderr }) => stdout + stderr).join("")).not.toContain("\u001b");
    expect(said.status).toBe(1);
  });

  test("the version is the package's", async () => {
    const { version } = JSON.parse(
      readFileSync(new URL("../../server/package.json", import.meta.url), "utf8"),
    );
    expect(await trunkline(["--version"])).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
  });
});

describe("what cannot be read is refused in one line, with status 2", () => {
  const neither = "--result, --error: neither is given; give one of them";
  test.each<[string[], string]>([
    [["serf"], "unknown command 'serf' (Did you mean serve?); see `trunkline --help`"],
    [["calls", "lst"], "unknown command 'lst' (Did you mean list?); see `trunkline calls --help`"],
    [["call", "--runn", "x"], "unknown option '--runn' (Did you mean --run?); see `trunkline call --help`"],
    [["call"], "missing required argument 'tool'; see `trunkline call --help`"],
    [["run", "end", "a", "b"], "too many arguments for 'end'. Expected 1 argument but got 2."],
    [["call", "echo", "{a:1}"], "input is not JSON: at offset 1 of 5"],
    [["call", "echo", ""], "input is empty; allowed is one JSON value"],
    [["call", "echo", "--timeout", "30"], '--timeout: "30" is not a duration'],
    [["call", "echo", "--turn", "-1"], '--turn: "-1"; allowed are whole numbers from 0'],
    [["call", "echo", "--run", "x", "--toolset", "y"], "--toolset: belongs to the run that --run names"],
    [["run", "create", "--label", "x"], '--label: "x"; allowed: NAME=VALUE'],
    [["run", "create", "--namespace", ""], '--namespace: ""; allowed: a text that is not empty'],
    [["calls", "list", "--run", ""], '--run: ""; allowed: a text that is not empty'],
    [["calls", "list", "--state", "lost"], '--state: "lost"; allowed: queued, claimed, deferred'],
    [["settle", "x/1"], neither],
    [["settle", "x/1", "--result", "1", "--retryable"], "--retryable: goes with --error only"],
    [["complete", "token", "{nothing}"], "result is not JSON"],
    [["complete", "token", "not now"], `a text needs quotes of its own: '"not now"'`],
    [["complete", "-", "-"], "TOKEN: standard input can be only one of the arguments"],
    [["toolset", "put", "/no/such/file"], 'FILE: cannot read "/no/such/file" (there is no such file)'],
    [["toolset", "put", "/"], 'FILE: cannot read "/" (it is not a file)'],
    [["calls", "list", "--url", "ftp://x"], "url: it begins with ftp:; allowed is http://HOST:PORT"],
    [["calls", "list", "--url", "localhost:7788"], "url: it begins with localhost:; allowed is http://"],
    [["calls", "list", "--api-key", "two words"], "key: character 4 is a space"],
    [["dev", "--host", "0.0.0.0"], '--host: "0.0.0.0" is not loopback'],
    [["dev", "--url", "http://x"], "--url: is for commands that talk to a server, and dev does not"],
    [["serve"], "DATABASE_URL: is not set"],
    [["migrate"], "DATABASE_URL: is not set"],
    [["init"], "DATABASE_URL: is not set"],
    [["key", "create", "a"], "required option '--scope <scope>' not specified"],
    [["key", "create", "", "--scope", "worker"], 'NAME: ""; allowed: a text that is not empty'],
    [["key", "create", "a", "--scope", "root"], '--scope: "root"; allowed: worker, harness, admin'],
    [
      ["key", "create", "a", "--scope", "admin", "--scope", "admin"],
      '--scope: "admin"; allowed: each scope once',
    ],
    [["key", "revoke", "tlk_a_b"], "id: it is the key itself; allowed is its id"],
    [
      ["token", "create", "--namespace", "a", "--scope", "admin"],
      '--scope: "admin"; allowed: worker, harness',
    ],
    [["token", "revoke", "eyJh.e.s"], "id: it is the token itself; allowed is the id"],
  ])("%j", async (args, message) => {
    const { status, stdout, stderr } = await trunkline(args, { env: NOWHERE });
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^error: .*\n$/);
    expect(stderr).toContain(message);
  });

  test.each([[[]], [["toolset"]], [["run"]], [["calls"]], [["key"]]])(
    "a command is missing in %j",
    async (args) => {
      const { status, stdout, stderr } = await trunkline(args);
      expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
      expect(stderr).toContain("Usage: trunkline");
    },
  );

  test("machines get a document instead of the line", async () => {
    const { status, stdout, stderr } = await trunkline(["settle", "x/1", "--json"]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(JSON.parse(stderr)).toEqual({
      error: { reason: "INVALID_FIELD", message: neither, metadata: {} },
    });
  });
});

test("without a server every command of a client says so, what to do, and fails", async () => {
  const commands = [
    ["toolset", "list"],
    ["run", "list"],
    ["call", "echo"],
    ["call", "echo", "--run", "0198c0de-0000-7000-8000-000000000000"],
    ["calls", "list"],
    ["complete", "a-secret-token"],
  ];
  const results = await Promise.all(commands.map((args) => trunkline(args, { env: NOWHERE })));
  for (const { status, stdout, stderr } of results) {
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toBe(
      "error: no server at http://127.0.0.1:9 (connection refused); start one with `trunkline dev`, or name " +
        "another in TRUNKLINE_URL or by --url\n",
    );
  }
});
