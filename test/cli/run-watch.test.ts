import { expect, test } from "vitest";
import { useStack } from "../support/stack.js";
import { until, within } from "../support/until.js";
import { RunningCommand, trunkline } from "./command.js";

const stack = useStack();

const env = (): NodeJS.ProcessEnv => ({ TRUNKLINE_URL: stack.server.url });

const watch = (...args: readonly string[]): RunningCommand =>
  new RunningCommand(["run", "watch", ...args], { env: env() });

const linesOf = ({ stdout }: RunningCommand): string[] => stdout.split("\n").slice(0, -1);

test("run watch prints a line for each thing that happens, and ends with the run", async () => {
  const run = await stack.client.runs.create();
  await using command = watch(run.id);
  const call = await run.open("ask");
  await until("the call", () => linesOf(command).length === 2);
  await stack.client.calls.settle(call.id, { type: "tool.error", error: "no \u001b[31msuch\nthing" });
  await until("its end", () => linesOf(command).length === 3);
  await run.end();
  const { status } = await within("its end", command.ended);
  expect({ status, stderr: command.stderr }).toEqual({ status: 0, stderr: "" });
  const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
  expect(command.stdout).toMatch(
    new RegExp(
      [
        `^${time}  run   ${run.id}  active`,
        `${time}  call  ${call.id}  ask  queued`,
        String.raw`${time}  call  ${call.id}  ask  failed  tool: no \\x1b\[31msuch\\nthing`,
        `${time}  run   ${run.id}  ended\n$`,
      ].join("\n"),
    ),
  );
});

test("with --json its lines are documents, and a cursor of one goes on after it", async () => {
  const run = await stack.client.runs.create({ labels: { a: "b" } });
  const call = await run.open("ask", { n: 1 });
  await using first = watch(run.id, "--json");
  await until("two lines", () => linesOf(first).length === 2);
  first.signal("SIGINT");
  const { status } = await within("its end", first.ended);
  expect({ status, stderr: first.stderr }).toEqual({ status: 0, stderr: "" });
  const documents = linesOf(first).map((line) => JSON.parse(line));
  expect(documents).toMatchObject([
    { type: "run", run: { id: run.id, state: "active", labels: { a: "b" } } },
    { type: "call", call: { id: call.id, state: "queued", input: { n: 1 } } },
  ]);
  await run.end();
  const rest = await trunkline(["run", "watch", run.id, "--cursor", documents[1].cursor, "--json"], {
    env: env(),
  });
  expect(
    rest.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).type)
      .sort(),
  ).toEqual(["call", "run"]);
});

test("a reader that has seen enough ends it", async () => {
  const run = await stack.client.runs.create();
  await using command = watch(run.id);
  await until("the run", () => linesOf(command).length === 1);
  await command.stopReading();
  for (let calls = 0; command.isAlive && calls < 50; calls++) await run.open("ask");
  expect((await within("its end", command.ended)).status).toBe(0);
  await run.end();
});

test("a run that is not there, and a server that is not there, are said at once", async () => {
  const missing = await trunkline(["run", "watch", "01890000-0000-7000-8000-000000000000"], { env: env() });
  expect(missing).toMatchObject({ status: 1, stdout: "" });
  expect(missing.stderr).toMatch(/^error: there is no run/);
  const nobody = await trunkline(["run", "watch", "x"], { env: { TRUNKLINE_URL: "http://127.0.0.1:1" } });
  expect(nobody.stderr).toMatch(/no server at/);
});
