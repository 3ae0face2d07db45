import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Trunkline } from "@trunkline/sdk";
import { createLog, startServer, type Server } from "trunkline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Random } from "../fault-run/random.mjs";
import { useDatabase } from "../support/database.js";
import { until } from "../support/until.js";
import { AgentStage } from "./agent-stage.js";

const database = useDatabase();
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));
const ANSWER =
  "16:03 to Bergen (R-609/1), 07:59 back (R-602/1), by the window; approved by your manager. " +
  "Take a coat: rain there. Of Atlantis I know only: no weather station in Atlantis.";
const SMOKE_KILLS = 3;

let server: Server;
let client: Trunkline;
let stage: AgentStage;

beforeAll(async () => {
  server = await startServer({
    ...{ databaseUrl: database.url, port: 0, rootKey: null, insecure: true, log: createLog("silent") },
    heartbeatIntervalMs: 200,
  });
  client = new Trunkline({ url: server.url });
  stage = await AgentStage.on(server.url);
  await stage.startWorker();
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await client.close();
  await server.stop();
});

/** The first call of this tool that waits for a person. */
const waiting = (tool: string): Promise<string> =>
  until(`${tool} waits`, async () => (await client.calls.list({ tool, state: "deferred" })).items[0]?.id);

describe("the agent", () => {
  test("comes to its answer with tools that are quick, slow, busy, answered by people, and wrong", async () => {
    const engine = stage.startEngine("calm");
    const seat = await waiting("ask_traveller");
    await client.calls.settle(seat, { type: "tool.result", result: { choice: "window" } });
    const approval = await waiting("approve");
    const file = join(stage.folder, "approvals", `${approval.replace("/", "-")}.json`);
    const { token } = JSON.parse(await readFile(file, "utf8"));
    const complete = ["complete", token, '{"approved":true,"by":"manager"}', "--url", server.url];
    await promisify(execFile)(process.execPath, [TRUNKLINE, ...complete]);
    expect(await engine.ended, engine.stderr.join("\n")).toBe(0);
    expect(engine.stdout).toEqual([ANSWER]);
    const said = engine.stderr.join("\n");
    expect(said).toMatch(/hold_1 succeeded .*attempt 3/);
    expect(said).toMatch(/look_3 refused: .*to/);
    expect(await stage.check("calm")).toMatch(
      /^calm: 11 records by 1 engines, 10 calls, 13 starts, 5 prompts; 0 faults$/,
    );
  });

  test("killed at any moment, goes on where it was, opens nothing twice, and answers alike", async () => {
    await stage.startPeople();
    const seed = process.env["AGENT_SEED"] ?? "smoke";
    const random = new Random(seed);
    const told: string[] = [];
    for (let kills = 0; kills < SMOKE_KILLS;) {
      const death = { atCallback: random.int(20, 400) };
      const { killed, stdout } = await stage.life("smoke", death);
      told.push(`${JSON.stringify(death)}: ${killed ? "killed" : "too late"}`);
      if (killed) kills++;
      else expect(stdout).toEqual([ANSWER]);
    }
    const last = await stage.life("smoke");
    expect(last.stdout, told.join("; ")).toEqual([ANSWER]);
    expect(await stage.check("smoke", "calm"), `${seed}: ${told.join("; ")}`).toMatch(/; 0 faults$/);
    expect(await readdir(join(stage.folder, "sessions"))).toEqual(["calm.jsonl", "smoke.jsonl"]);
  });
});
