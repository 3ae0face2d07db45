import { create } from "@bufbuild/protobuf";
import { RunService } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import { useNode } from "../node.js";
import { newHello, WorkClient } from "../raw-stream.js";

const it = useNode();

/** Asks by Connect with JSON, whose text alone can hold what no object literal does. */
async function post(rpc: string, text: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${it.node.url}/trunkline.v1.${rpc}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: text,
  });
  return { status: response.status, text: await response.text() };
}

const labels = (): Record<string, string> =>
  JSON.parse('{"__proto__":"a label","constructor":"another","toString":"x"}') as Record<string, string>;

/** Labels in one order: they are kept in none. */
const sorted = (given: Readonly<Record<string, string>>) => Object.entries(given).sort();

describe("S15: a label that is called __proto__", () => {
  test.each(["JSON", "binary"])("is a label like any other in a map that came as %s", async (encoding) => {
    const text = JSON.stringify(labels());
    let runId: string;
    if (encoding === "JSON") {
      const made = await post("RunService/CreateRun", `{"spec":{"labels":${text}}}`);
      expect(made.text).toContain('"__proto__":"a label"');
      runId = (JSON.parse(made.text) as { run: { id: string } }).run.id;
    } else {
      const { run } = await it.node.runs.createRun(
        create(RunService.method.createRun.input, { spec: { labels: labels() } }),
      );
      expect(sorted(run!.labels)).toEqual(sorted(labels()));
      runId = run!.id;
    }
    const listed = await post("RunService/ListRuns", `{"labels":{"__proto__":"a label"}}`);
    expect(listed.text).toContain(runId);
    expect((await post("RunService/ListRuns", `{"labels":{"__proto__":"another"}}`)).text).toBe("{}");
    const [callId = ""] = await it.node.openIn(runId, { tool: encoding });
    const worker = await WorkClient.open(it.node.url, newHello({ tools: [encoding] }));
    expect(sorted((await worker.claimOf(callId)).labels)).toEqual(sorted(labels()));
    await worker.close();
    expect(sorted((await it.node.call(callId)).labels)).toEqual(sorted(labels()));
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  test("is counted and measured as one", async () => {
    const { status, text } = await post(
      "RunService/CreateRun",
      `{"spec":{"labels":{"__proto__":"${"x".repeat(257)}"}}}`,
    );
    expect([status, text]).toEqual([400, expect.stringContaining("LIMIT_EXCEEDED")]);
    const object = await post(
      "RunService/CreateRun",
      '{"spec":{"labels":{"__proto__":{"namespace":"eve"}}}}',
    );
    expect([object.status, object.text]).toEqual([400, expect.stringContaining("INVALID_FIELD")]);
  });
});

test.each([
  '{"__proto__":{"spec":{"namespace":"eve"}}}',
  '{"spec":{"__proto__":{"namespace":"eve"}}}',
  '{"constructor":{"prototype":{"spec":{}}}}',
])("S15: a request with the member of no field is not given a field by it: %s", async (text) => {
  const answer = await post("RunService/CreateRun", text);
  expect(answer.text).not.toContain("eve-");
  if (answer.status === 200) expect(answer.text).toContain('"namespace":"default"');
  else expect(answer.status).toBe(400);
  expect(Object.keys(Object.prototype)).toEqual([]);
});

test("S15: a settlement over plain HTTP with a member __proto__ is refused, and is not given its members", async () => {
  const [callId = ""] = await it.node.open({ tool: "nobody", key: "k" });
  const [runId] = callId.split("/");
  const response = await fetch(`${it.node.url}/api/machine/sessions/${runId}/calls/settle`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"__proto__":{"type":"tool.result"},"id":"k","result":1}',
  });
  expect(response.status).toBe(400);
  expect(await it.node.call(callId)).toMatchObject({ attempt: 0 });
});
