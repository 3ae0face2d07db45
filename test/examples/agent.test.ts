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
import { Agent } from "../../examples/agent/agent.mjs";
import { aiSdkModel } from "../../examples/agent/ai-sdk-model.mjs";
import { Transcript } from "../../examples/agent/transcript.mjs";
import { AgentStage } from "./agent-stage.js";

/** Not imported by name, which brings types that are not checked as strictly as ours. */
const AI_TEST = ["ai", "test"].join("/");

/** What is used of a model of the AI SDK that says what it is told to. */
interface MockModel {
  readonly modelId: string;
  readonly doGenerateCalls: readonly {
    readonly tools: readonly { readonly name: string }[];
    readonly prompt: readonly { readonly role: string; readonly content: unknown[] }[];
  }[];
}

type AiTest = Readonly<Record<"MockLanguageModelV3", new (options: object) => MockModel>>;

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
    expect(said).toMatch(/hold_1-\w+ succeeded .*attempt [3-9]/);
    expect(said).toMatch(/look_3-\w+ refused: .*to/);
    expect(await stage.check("calm")).toMatch(
      /^calm: 11 records by 1 engines, 10 calls, \d+ starts, 5 prompts; 0 faults$/,
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

  test("asks a model of the AI SDK, with every result in its place, and copes with its mistakes", async () => {
    const signed = { anthropic: { signature: "of the provider" } };
    const toolCall = (toolCallId: string, toolName: string, input: string) => ({
      ...{ type: "tool-call", toolCallId, toolName, input },
    });
    const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
    const answer = (...content: object[]) => ({
      ...{ content, finishReason: { unified: "stop", raw: undefined }, warnings: [] },
      usage: { inputTokens: tokens, outputTokens: tokens },
    });
    // What the package has.
    const { MockLanguageModelV3 } = (await import(AI_TEST)) as AiTest;
    const model = new MockLanguageModelV3({
      doGenerate: [
        answer(
          { type: "reasoning", text: "hm", providerMetadata: signed },
          toolCall("c1", "weather", '{"city":"Atlantis"}'),
          toolCall("c2", "weather", '{"city":'),
          toolCall("c3", "weather", '{"city":"Oslo"}'),
        ),
        // An id that it has used before, and no name of a tool.
        answer(toolCall("c1", "weather", '{"city":"Bergen"}'), toolCall("c4", "the weather", "{}")),
        answer({ type: "text", text: "snow and rain" }),
      ],
    });
    const transcript = await Transcript.open(stage.folder, "ai");
    await transcript.append({ type: "request", id: "ai", text: "Tomorrow?" });
    const said = await new Agent({
      trunkline: client,
      model: aiSdkModel(model),
      transcript,
      note: () => undefined,
    }).work();
    await transcript.close();
    expect(said).toBe("snow and rain");

    const [, second, third] = model.doGenerateCalls;
    expect(second?.tools.map(({ name }) => name)).toContain("hold_seats");
    expect(second?.prompt.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(second?.prompt[2]?.content).toMatchObject([
      { type: "reasoning", text: "hm", providerOptions: signed },
      ...["c1", "c2", "c3"].map((toolCallId) => ({ type: "tool-call", toolCallId })),
    ]);
    expect(second?.prompt[3]?.content).toMatchObject([
      { toolCallId: "c1", output: { type: "error-text", value: "no weather station in Atlantis" } },
      { toolCallId: "c2", output: { type: "error-text", value: expect.stringContaining("JSON") } },
      { toolCallId: "c3", output: { type: "json", value: { city: "Oslo", sky: "snow" } } },
    ]);
    expect(third?.prompt.at(-1)?.content).toMatchObject([
      { toolCallId: "c1", output: { type: "json", value: { city: "Bergen", sky: "rain" } } },
      { toolCallId: "c4", output: { type: "error-text", value: expect.stringContaining("the weather") } },
    ]);
    const run = transcript.records.find((record) => record.type === "run")?.id ?? "";
    const { items } = await client.calls.list({ run });
    expect(items.map(({ key }) => key).sort()).toEqual(["2.0/c1", "c1", "c3"]);
  });

  test("tells a model how each of two tool calls ended to which it gave one id", async () => {
    const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
    // What the package has.
    const { MockLanguageModelV3 } = (await import(AI_TEST)) as AiTest;
    const model = new MockLanguageModelV3({
      doGenerate: {
        ...{ content: [{ type: "text", text: "done" }], warnings: [] },
        finishReason: { unified: "stop", raw: undefined },
        usage: { inputTokens: tokens, outputTokens: tokens },
      },
    });
    const content = ["Oslo", "Atlantis"].map((city) => ({
      ...{ type: "tool-call", toolCallId: "a", toolName: "weather", input: { city } },
    }));
    await aiSdkModel(model).answer({
      system: "You are a travel desk.",
      messages: [
        { role: "user", text: "Tomorrow?" },
        { role: "assistant", text: "", toolCalls: [], native: [{ role: "assistant", content }] },
        {
          role: "tool",
          results: [
            { id: "a", name: "weather", state: "succeeded", resultJson: '"snow"' },
            { id: "a", name: "weather", state: "refused", error: { message: "no such place" } },
          ],
        },
      ],
      tools: {},
    });
    expect(model.doGenerateCalls[0]?.prompt.at(-1)?.content).toMatchObject([
      { toolCallId: "a", output: { type: "text", value: "snow" } },
      { toolCallId: "a", output: { type: "error-text", value: "no such place" } },
    ]);
  });
});
