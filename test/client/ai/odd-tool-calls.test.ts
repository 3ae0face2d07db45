import { afterAll, beforeAll, expect, test } from "vitest";
import { openToolCalls, toolMessages } from "../../../client/src/ai/index.js";
import { BatchError, defineToolset, rawJson, type Run, type Trunkline } from "../../../client/src/index.js";
import { useBackend } from "../support/server.js";

const tools = defineToolset("odd", { echo: { description: "Says it again" } });

const backend = useBackend();
let client: Trunkline;
let run: Run;

beforeAll(async () => {
  client = backend().client();
  await client.toolsets.put(tools.id, tools.declarations);
  run = await client.runs.create({ toolset: tools.id });
  client.worker({ tools: tools.handlers({ echo: (input) => input }) });
});

afterAll(async () => {
  await run.end();
  await client.close();
});

const toolCall = (toolCallId: string, toolName = "echo", input: unknown = "hi") => ({
  ...{ toolCallId, toolName, input },
});

test("a name that cannot be a tool's, or an id that cannot be a key, is told to the model like other mistakes", async () => {
  const calls = [
    toolCall("good"),
    toolCall("space", "e c h o"),
    toolCall("empty", ""),
    toolCall("half", "\ud800"),
    toolCall("long", "n".repeat(129)),
    toolCall("line\nbreak"),
    toolCall("\udc00"),
    toolCall("i".repeat(257)),
  ];
  const opened = await openToolCalls(run.turn(1), calls, tools);
  expect(opened.handles.map(({ key }) => key)).toEqual(["good"]);
  const [message] = toolMessages(calls, await opened.settled());
  expect(message?.content.map(({ output }) => output.type)).toEqual([
    "text",
    ...Array.from({ length: 7 }, () => "error-text"),
  ]);
});

test("options that cannot be are not told to the model as its mistake", async () => {
  const opening = openToolCalls(run.turn(2), [toolCall("a")], tools, { priority: 1_000 });
  await expect(opening).rejects.toBeInstanceOf(BatchError);
  await expect(opening).rejects.toMatchObject({ reason: "INVALID_FIELD" });
});

test("a tool call without an id is refused, and opens nothing: again it would be another call", async () => {
  const calls = [toolCall("first"), toolCall("")];
  await expect(openToolCalls(run.turn(3), calls, tools)).rejects.toMatchObject({
    reason: "INVALID_FIELD",
    metadata: { field: "toolCallId" },
  });
  await expect(run.turn(3).status()).rejects.toMatchObject({ reason: "NOT_FOUND" });
});

test("an input that nests without end is the model's mistake, and raw JSON goes through digit for digit", async () => {
  let deep: unknown = 1;
  for (let levels = 0; levels < 20_000; levels++) deep = [deep];
  const calls = [
    toolCall("deep", "echo", deep),
    toolCall("raw", "echo", { id: rawJson("9007199254740993"), at: new Date(0) }),
  ];
  const opened = await openToolCalls(run.turn(4), calls, tools);
  expect(opened.refused.map(({ key, error }) => [key, error.reason])).toEqual([["deep", "LIMIT_EXCEEDED"]]);
  expect((await run.turn(4).settled()).map(({ key, resultJson }) => [key, resultJson])).toEqual([
    ["raw", expect.stringContaining("1970-01-01T00:00:00.000Z")],
  ]);
  expect((await client.calls.get(opened.handles[0]!.id)).inputJson).toContain("9007199254740993");
});
