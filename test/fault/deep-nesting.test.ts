import { describe, expect, test } from "vitest";
import { create, toBinary } from "@bufbuild/protobuf";
import { CallSpecSchema, OpenCallsRequestSchema } from "@trunkline/proto/call";
import { rawJson, ToolError } from "@trunkline/sdk";
import { postBinary, postJson } from "../support/connect-json.js";
import { useStack } from "../support/stack.js";

const stack = useStack();

/** The documented limit. */
const MAX_DEPTH = 256;

const arrays = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
const objects = (depth: number): string => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);

const GOOD = [30, 40, 100, MAX_DEPTH];
const BAD = [MAX_DEPTH + 1, 1_000, 5_000, 100_000];
const SHAPES = [
  ["arrays", arrays],
  ["objects", objects],
] as const;

/** Opens `inputJson` between two ordinary calls; what became of the three, by their fields. */
async function openBetween(encoding: "JSON" | "binary", inputJson: string): Promise<readonly string[]> {
  const run = await stack.client.runs.create();
  const calls = ["1", inputJson, "3"].map((text) => ({ tool: "unserved", inputJson: text }));
  const rpc = "CallService/OpenCalls";
  if (encoding === "JSON") {
    const { body } = await postJson(stack.server.url, rpc, { runId: run.id, calls });
    const results: readonly { problem?: { reason: string } }[] = body.results;
    return results.map(({ problem }) => problem?.reason ?? "opened");
  }
  const request = create(OpenCallsRequestSchema, {
    runId: run.id,
    calls: calls.map((call) => create(CallSpecSchema, call)),
  });
  expect(await postBinary(stack.server.url, rpc, toBinary(OpenCallsRequestSchema, request))).toMatchObject({
    status: 200,
  });
  // What was opened is what is there.
  const { items } = await stack.client.calls.list({ run: run.id, payloads: true });
  const opened = items.map((call) => call.inputJson);
  return ["1", inputJson, "3"].map((text) => (opened.includes(text) ? "opened" : "REASON_LIMIT_EXCEEDED"));
}

describe.each(SHAPES)("B19: nested %s as input", (_, nested) => {
  describe.each(["JSON", "binary"] as const)("by Connect in %s", (encoding) => {
    test.each(GOOD)("%i deep are taken", async (depth) => {
      expect(await openBetween(encoding, nested(depth))).toEqual(["opened", "opened", "opened"]);
    });

    test.each(BAD)("%i deep are refused, and the two calls around them are not (I11)", async (depth) => {
      const results = await openBetween(encoding, nested(depth));
      expect(results).toEqual(["opened", "REASON_LIMIT_EXCEEDED", "opened"]);
    });
  });

  test.each(GOOD)("%i deep come through a worker and back, by the SDK", async (depth) => {
    await using client = stack.newClient();
    const tool = `echo_${depth}`;
    client.worker({ tools: { [tool]: (_input, { inputJson }) => rawJson(inputJson) } });
    const run = await client.runs.create();
    const call = await run.open(tool, rawJson(nested(depth)));
    expect((await call.outcome()).resultJson).toBe(nested(depth));
  });

  test.each(BAD)("%i deep are refused by the SDK's call with a limit, not a crash", async (depth) => {
    const run = await stack.client.runs.create();
    const refused = run.call("unserved", rawJson(nested(depth)));
    await expect(refused).rejects.toMatchObject({ reason: "LIMIT_EXCEEDED" });
  });
});

test.each(BAD.filter((depth) => depth < 100_000))(
  "B19: an answer that is nested %i deep fails its call, and the worker goes on",
  async (depth) => {
    await using client = stack.newClient();
    const tool = `nests_${depth}`;
    const answers = {
      text: () => rawJson(arrays(depth)),
      value: () => JSON.parse(arrays(depth)) as unknown,
      fine: () => 1,
    };
    const worker = { [tool]: (input: unknown) => answers[input as keyof typeof answers]() };
    client.worker({ tools: worker, onError: () => undefined });
    const run = await client.runs.create();
    for (const how of ["text", "value"]) {
      const failed: unknown = await run.call(tool, how).catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(ToolError);
      expect(failed).toMatchObject({ kind: "invalid_answer", message: expect.stringContaining("256") });
    }
    expect(await run.call(tool, "fine")).toBe(1);
  },
);

describe("B19: a request whose own message nests 100,000 deep", () => {
  const DEPTH = 100_000;

  test("as JSON is refused as an invalid argument", async () => {
    const { id } = await stack.client.runs.create();
    const body = `{"runId":"${id}","unknown":${arrays(DEPTH)}}`;
    const answer = await postJson(stack.server.url, "CallService/OpenCalls", body);
    expect(answer).toMatchObject({ status: 400, body: { code: "invalid_argument" } });
  });

  test("as groups of unknown fields is refused by the decoder's own bound, and other streams go on", async () => {
    await using client = stack.newClient();
    client.worker({ tools: { beside: () => "undisturbed" } });
    const run = await client.runs.create();
    await run.call("beside");
    // Field 100, a group: it starts with wire type 3 and ends with wire type 4.
    const tag = (type: number): number[] => [((100 << 3) & 0x7f) | 0x80 | type, (100 << 3) >> 7];
    const bytes = [...Array<number[]>(DEPTH).fill(tag(3)), ...Array<number[]>(DEPTH).fill(tag(4))].flat();
    const answer = await postBinary(stack.server.url, "CallService/OpenCalls", new Uint8Array(bytes));
    expect(answer.body).toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining("recursion depth"),
    });
    expect(await run.call("beside")).toBe("undisturbed");
  });
});

test("B19: nothing of this was a fault of the server, nor reached its stack's end", () => {
  expect(stack.server.faults).toEqual([]);
  expect(stack.server.log).not.toContain("RangeError");
});
