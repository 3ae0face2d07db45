import { Code } from "@connectrpc/connect";
import { Executor, PolicyMode } from "@trunkline/proto/model";
import { expect, test } from "vitest";
import { toDuration } from "../../server/src/service/convert.js";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const serving = useServing();

test("a toolset comes back as it was put", async () => {
  const tools = [
    {
      name: "crm.find",
      description: "Finds a customer by e-mail 😀\u0000",
      inputSchemaJson: '{ "type": "object",  "x": 1.0 }',
      outputSchemaJson: '{"type":["object","null"]}',
      policy: { mode: PolicyMode.AT_MOST_ONCE, attemptTimeout: toDuration(5_000), maxAttempts: 2 },
      executor: Executor.CLIENT,
    },
    { name: "plain" },
  ];
  const put = await serving.toolsets.putToolset({ id: "shop", tools });
  expect(put).toMatchObject({ changed: true, toolset: { id: "shop", version: 1, tools: [] } });
  const { toolset } = await serving.toolsets.getToolset({ id: "shop" });
  expect(toolset).toMatchObject({ version: 1, tools });
  expect(toolset?.tools[0]?.policy?.backoffFactor).toBeUndefined();
  expect(toolset?.tools[1]).toMatchObject({
    executor: Executor.WORKER,
    inputSchemaJson: "",
    outputSchemaJson: "",
  });
  expect(toolset?.createdAt).toEqual(put.toolset?.createdAt);
});

test("the same tools again are the same version; other tools are the next one", async () => {
  const put = (description: string) =>
    serving.toolsets.putToolset({ id: "v", tools: [{ name: "t", description }] });
  const outcomes = [await put("a"), await put("a"), await put("b"), await put("a")];
  expect(outcomes.map(({ toolset, changed }) => [toolset?.version, changed])).toEqual([
    [1, true],
    [1, false],
    [2, true],
    [3, true],
  ]);
  const second = await serving.toolsets.getToolset({ id: "v", version: 2 });
  expect(second.toolset?.tools[0]?.description).toBe("b");
});

test.each([
  ["id", { id: "a\u0000", tools: [{ name: "t" }] }, "INVALID_FIELD"],
  ["tools", { id: "bad", tools: [] }, "INVALID_FIELD"],
  ["tools[0].name", { id: "bad", tools: [{ name: "a b" }] }, "INVALID_FIELD"],
  ["tools[1].name", { id: "bad", tools: [{ name: "t" }, { name: "t" }] }, "INVALID_FIELD"],
  [
    "tools[0].description",
    { id: "bad", tools: [{ name: "t", description: "d".repeat(16_385) }] },
    "LIMIT_EXCEEDED",
  ],
  ["tools[0].input_schema_json", { id: "bad", tools: [{ name: "t", inputSchemaJson: "{" }] }, "INVALID_JSON"],
  [
    "tools[0].policy.max_attempts",
    { id: "bad", tools: [{ name: "t", policy: { maxAttempts: 1_001 } }] },
    "INVALID_FIELD",
  ],
  [
    "tools[0].policy.heartbeat_timeout",
    { id: "bad", tools: [{ name: "t", policy: { heartbeatTimeout: toDuration(2_999) } }] },
    "INVALID_FIELD",
  ],
  ["tools[0].executor", { id: "bad", tools: [{ name: "t", executor: 9 as never }] }, "INVALID_FIELD"],
])("a bad %s is refused by that name, and nothing is stored", async (field, request, reason) => {
  const { problem } = await refusalOf(serving.toolsets.putToolset(request));
  expect([reasonOf(problem), problem.metadata["field"]]).toEqual([reason, field]);
  expect((await refusalOf(serving.toolsets.getToolset({ id: "bad" }))).code).toBe(Code.NotFound);
});

test.each(['{"type":"objekt"}', '{"$ref":"https://example.com/schema"}', '{"pattern":"(?=x)"}'])(
  "the schema %s is refused when it is put, not when it is used",
  async (inputSchemaJson) => {
    const request = serving.toolsets.putToolset({ id: "bad", tools: [{ name: "t", inputSchemaJson }] });
    const { code, problem } = await refusalOf(request);
    expect([code, reasonOf(problem)]).toEqual([Code.InvalidArgument, "SCHEMA_VIOLATION"]);
    expect(problem.message).toContain("tools[0].input_schema_json");
  },
);

test("an input that the schema refuses is not opened", async () => {
  const inputSchemaJson = '{"type":"object","required":["email"]}';
  await serving.toolsets.putToolset({ id: "checked", tools: [{ name: "t", inputSchemaJson }] });
  const { run } = await serving.runs.createRun({ spec: { toolset: "checked" } });
  const { results } = await serving.calls.openCalls({
    runId: run?.id ?? "",
    calls: [{ tool: "t", inputJson: "{}" }, { tool: "t", inputJson: '{"email":1}' }, { tool: "u" }],
  });
  expect(
    results.map(({ result }) => (result.case === "problem" ? reasonOf(result.value) : result.case)),
  ).toEqual(["SCHEMA_VIOLATION", "opened", "TOOL_UNKNOWN"]);
});

test("a deleted toolset makes no new run, but the runs that pinned it go on", async () => {
  await serving.toolsets.putToolset({ id: "gone", tools: [{ name: "t" }] });
  const { run } = await serving.runs.createRun({ spec: { toolset: "gone" } });
  await serving.toolsets.deleteToolset({ id: "gone" });
  expect((await refusalOf(serving.toolsets.getToolset({ id: "gone" }))).code).toBe(Code.NotFound);
  expect((await refusalOf(serving.toolsets.deleteToolset({ id: "gone" }))).code).toBe(Code.NotFound);
  expect((await refusalOf(serving.runs.createRun({ spec: { toolset: "gone" } }))).code).toBe(Code.NotFound);
  const { results } = await serving.calls.openCalls({ runId: run?.id ?? "", calls: [{ tool: "t" }] });
  expect(results[0]?.result.case).toBe("opened");
});

test("pages hold every toolset once, in the order of their ids, however large they are", async () => {
  const description = "d".repeat(16 * 1024);
  const ids = Array.from({ length: 9 }, (_, index) => `page-${index}`);
  for (const id of ids) {
    const tools = Array.from({ length: 60 }, (_, index) => ({ name: `t${index}`, description }));
    await serving.toolsets.putToolset({ id, tools });
  }
  for (const pageSize of [0, 2]) {
    const seen: string[] = [];
    let pageToken = "";
    let pages = 0;
    do {
      const page = await serving.toolsets.listToolsets({ pageSize, pageToken });
      seen.push(...page.toolsets.map(({ id }) => id));
      pageToken = page.nextPageToken;
      pages++;
    } while (pageToken !== "");
    expect(seen.filter((id) => id.startsWith("page-"))).toEqual(ids);
    expect(seen).toEqual([...seen].sort());
    expect(pages).toBeGreaterThan(2);
  }
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
