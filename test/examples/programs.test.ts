import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Trunkline } from "@trunkline/sdk";
import { createLog, startServer, type Server } from "trunkline";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Inbox } from "../../examples/host-tools/inbox.mjs";
import { useDatabase } from "../support/database.js";
import { runExample, startExample, type ExampleProgram } from "./example-program.js";

const database = useDatabase();
const ORDERS_CSV = fileURLToPath(new URL("../../examples/host-tools/data/orders.csv", import.meta.url));

let server: Server;
let folder: string;
let env: Record<string, string>;
const workers: ExampleProgram[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-test-examples-"));
  server = await startServer({
    ...{ databaseUrl: database.url, port: 0, rootKey: null, insecure: true, log: createLog("silent") },
  });
  env = {
    ...{ TRUNKLINE_URL: server.url, STATE_DIR: folder, JOBS_DIR: join(folder, "jobs") },
    ...{ CRM_DELAY_MS: "1", BANK_CONFIRM_MS: "1" },
  };
  for (const example of ["host-tools", "async-tools"]) {
    const worker = startExample(`${example}/worker.mjs`, [example], env);
    workers.push(worker);
    await worker.line("takes calls");
  }
});

afterAll(async () => {
  for (const { child } of workers) child.kill("SIGTERM");
  const statuses = await Promise.all(workers.map(({ ended }) => ended));
  await server.stop();
  await rm(folder, { recursive: true, force: true });
  expect(statuses).toEqual([0, 0]);
});

const harness = (...args: string[]): ReturnType<typeof runExample> =>
  runExample("host-tools/harness.mjs", args, env);

function resultOf({ stdout }: { stdout: readonly string[] }): Record<string, unknown> {
  expect(stdout).toHaveLength(1);
  return JSON.parse(stdout[0] ?? "");
}

describe("host-tools", () => {
  test("finds a customer, and another shop does not", async () => {
    const email = "fatima.nilsson@example.com";
    const found = await harness("customer", email);
    expect(found.status).toBe(0);
    expect(resultOf(found)).toMatchObject({ task: "customer", customer: { name: "Fatima Nilsson", email } });

    const foreign = await runExample("host-tools/harness.mjs", ["customer", email], {
      ...env,
      SHOP: "old-town",
    });
    expect(foreign.status).toBe(1);
    expect(resultOf(foreign)).toMatchObject({ failed: { kind: "tool", message: `no customer ${email}` } });
  });

  test("refunds and charges as the bank says", async () => {
    const refunded = resultOf(await harness("refund", "O-20518"));
    expect(refunded).toMatchObject({ attempt: 1, entry: { kind: "refund", order: "O-20518", cents: 4200 } });
    expect(refunded).toMatchObject({ entry: { key: refunded["callId"] } });
    const charged = resultOf(await harness("charge", "O-20605"));
    expect(charged).toMatchObject({ entry: { kind: "charge", order: "O-20605", cents: 64_900 } });
  });

  test("refuses a task that it does not know", async () => {
    const { status, stderr } = await harness("dance");
    expect(status).toBe(2);
    expect(stderr.join()).toContain('task "dance"; there are customer, statements, refund, charge, ask');
  });

  test("takes one of the offered answers, and only for a question that is open", async () => {
    const answer = (...args: string[]): ReturnType<typeof runExample> =>
      runExample("host-tools/answer.mjs", args, env);
    expect((await answer()).stdout).toEqual(["nobody is asking"]);

    const asking = startExample("host-tools/harness.mjs", ["ask", "O-20634"], env);
    await asking.line("asked the owner");
    const name = await openQuestion();
    expect((await answer()).stdout.join()).toContain("Clara Marino wants to return");
    expect(await answer(name, "perhaps")).toMatchObject({
      status: 1,
      stderr: [expect.stringContaining("yes, no")],
    });
    expect(await answer("q0-none", "yes")).toMatchObject({
      status: 1,
      stderr: [expect.stringContaining(name)],
    });
    expect((await answer(name, "no")).status).toBe(0);

    expect(await asking.ended).toBe(0);
    expect(resultOf(asking)).toMatchObject({ task: "ask", attempt: 1, answer: { answer: "no" } });
    expect((await answer()).stdout).toEqual(["nobody is asking"]);
  });

  test("shows no question whose token is not good yet", async () => {
    const inbox = new Inbox(join(folder, "other-inbox"));
    await inbox.save({ name: "q1", to: "harbour", question: "Now?", options: ["yes"], token: "t" });
    expect(await inbox.list()).toEqual([]);
    await inbox.publish("q1");
    expect(await inbox.list()).toMatchObject([{ name: "q1", token: "t" }]);
  });
});

/** The name of the one question that is shown, as soon as it is. */
async function openQuestion(): Promise<string> {
  const inbox = new Inbox(join(folder, "inbox"));
  return vi.waitUntil(async () => (await inbox.list())[0]?.name, { timeout: 10_000 });
}

describe("async-tools", () => {
  const render = (): ReturnType<typeof runExample> => runExample("async-tools/render.mjs", [ORDERS_CSV], env);

  test("settles a report by its call's id", async () => {
    const asking = startExample("async-tools/harness.mjs", ["2025-03"], env);
    await workers[1]?.line("took on the report of 2025-03");
    expect(await render()).toMatchObject({ status: 0, stdout: [expect.stringContaining("settled")] });
    expect(await asking.ended).toBe(0);
    expect(resultOf(asking)).toMatchObject({ attempt: 1, report: { month: "2025-03", orders: 46 } });
    // What was settled is not rendered again.
    expect(await render()).toMatchObject({ status: 0, stdout: [] });
  });

  test("drops a report that nobody waits for any more", async () => {
    const client = new Trunkline({ url: server.url });
    const run = await client.runs.create();
    await run.open("reports.render", { month: "2025-04" });
    await workers[1]?.line("took on the report of 2025-04");
    await run.end();
    await client.close();
    expect(await render()).toMatchObject({ status: 0, stdout: [expect.stringContaining("comes too late")] });
    expect((await readdir(join(folder, "jobs"))).filter((name) => name.endsWith(".job.json"))).toEqual([]);
  });

  test("goes on with a session whose worker and harness were killed while its call was left open", async () => {
    const [deciding, asking] = [
      startExample("async-tools/decide.mjs", ["deciding"], env),
      startExample("async-tools/session.mjs", ["2025-05"], env),
    ];
    await deciding.line("took on the report of 2025-05");
    await asking.line("asked scripted for the report of 2025-05");
    for (const { child } of [deciding, asking]) child.kill("SIGKILL");
    expect(await Promise.all([deciding.ended, asking.ended])).toEqual(["SIGKILL", "SIGKILL"]);
    const again = startExample("async-tools/session.mjs", ["2025-05"], env);
    await again.line("waiting");
    expect(await render()).toMatchObject({ status: 0, stdout: [expect.stringContaining("settled")] });
    expect(await again.ended).toBe(0);
    expect(resultOf(again)).toMatchObject({ attempt: 1, report: { month: "2025-05" } });
  });

  test("says how it is used when it is given no file", async () => {
    const { status, stderr } = await runExample("async-tools/render.mjs", [], env);
    expect(status).toBe(2);
    expect(stderr).toEqual(["usage: node render.mjs ORDERS.csv"]);
  });
});
