import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  defineToolset,
  jsonSchema,
  ToolError,
  type DefinedToolset,
  type Run,
  type ToolDefinitions,
  type Trunkline,
  type WorkerOptions,
} from "../../client/src/index.js";
import { useBackend } from "./support/server.js";

const backend = useBackend();
let client: Trunkline;
let errors: unknown[] = [];
const ended: (() => Promise<void>)[] = [];

beforeAll(() => {
  client = backend().client();
});

afterEach(async () => {
  for (const end of ended.splice(0)) await end();
  errors = [];
});

afterAll(() => client.close());

/** A run with the toolset, and a worker with these handlers. */
async function start(
  toolset: Pick<DefinedToolset<ToolDefinitions>, "id" | "declarations">,
  tools: WorkerOptions["tools"],
): Promise<Run> {
  await client.toolsets.put(toolset.id, toolset.declarations);
  const run = await client.runs.create({ toolset: toolset.id });
  const worker = client.worker({ tools, toolset: toolset.id, onError: (error) => errors.push(error) });
  ended.push(
    () => run.end(),
    () => worker.stop(),
  );
  return run;
}

const failureOf = async (call: Promise<unknown>): Promise<ToolError> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ToolError);
  return error as ToolError;
};

/** One declaration in each library. */
const LIBRARIES = {
  zod: defineToolset("zod", {
    "day.of": {
      description: "Names the day of the week",
      input: z.object({ at: z.iso.datetime().transform((at) => new Date(at)), days: z.number().default(0) }),
      output: z.object({ day: z.number() }),
    },
  }),
  valibot: defineToolset("valibot", {
    "day.of": {
      description: "Names the day of the week",
      input: toStandardJsonSchema(
        v.object({
          at: v.pipe(
            v.string(),
            v.isoTimestamp(),
            v.transform((at) => new Date(at)),
          ),
          days: v.optional(v.number(), 0),
        }),
      ),
      output: toStandardJsonSchema(v.object({ day: v.number() })),
    },
  }),
  // Its pattern of an ISO date looks around and back, which the server cannot run.
  arktype: defineToolset("arktype", {
    "day.of": {
      description: "Names the day of the week",
      input: type({ at: "string.date.iso.parse", days: "number = 0" }),
      output: type({ day: "number" }),
    },
  }),
};

describe.each(["zod", "valibot", "arktype"] as const)("a toolset in %s", (library) => {
  const toolset: (typeof LIBRARIES)["zod"] = LIBRARIES[library] as (typeof LIBRARIES)["zod"];

  test("gives handlers what comes out of its input, and callers what comes out of its output", async () => {
    const taken: unknown[] = [];
    const handlers = toolset.handlers({
      "day.of": (input) => {
        taken.push(input);
        return { day: input.at.getUTCDay() + input.days };
      },
    });
    const run = await start(toolset, handlers);
    expect(await toolset.of(run).day.of({ at: "2026-11-30T12:00:00Z" })).toEqual({ day: 1 });
    expect(await run.tools(toolset).day.of({ at: "2026-11-30T12:00:00Z", days: 2 })).toEqual({ day: 3 });
    expect(taken[0]).toEqual({ at: new Date("2026-11-30T12:00:00Z"), days: 0 });
    expect(errors).toEqual([]);
  });

  test("has its input checked when the call is opened, and its result when it is answered", async () => {
    const wrong = { "day.of": () => ({ day: "Monday" }) };
    // As JavaScript may pass it.
    const run = await start(
      toolset,
      toolset.handlers(wrong as unknown as { "day.of": () => { day: number } }),
    );
    await expect(run.call("day.of", { at: 7 })).rejects.toMatchObject({ reason: "SCHEMA_VIOLATION" });
    const failure = await failureOf(run.call("day.of", { at: "2026-11-30T12:00:00Z" }));
    expect(failure.kind).toBe("invalid_answer");
    expect(failure.message).toMatch(/^result\.day: /);
    expect(errors).toHaveLength(1);
  });
});

describe("a handler", () => {
  const toolset = defineToolset("checked", {
    split: {
      description: "What JSON Schema cannot say, the schema still says",
      input: z.object({
        parts: z.array(z.number()).refine((parts) => parts.length % 2 === 0, "must be even"),
      }),
      output: z.object({ half: z.number() }),
    },
    word: { description: "Patterns too", input: z.string().regex(/^(?!no$)\w+$/) },
    approve: { description: "Somebody says yes", output: z.object({ yes: z.boolean() }) },
  });

  test("never starts for input that its schema refuses: the call fails with the places", async () => {
    let started = 0;
    const handlers = toolset.handlers({
      split: ({ parts }) => {
        started++;
        return { half: parts.length / 2 };
      },
      word: () => ++started,
    });
    const run = await start(toolset, handlers);
    const failure = await failureOf(toolset.of(run).split({ parts: [1, 2, 3] }));
    expect(failure).toMatchObject({ kind: "tool", message: "input.parts: must be even", retryable: false });
    expect(failure.data).toEqual({ issues: [{ message: "must be even", path: ["parts"] }] });
    expect(await failureOf(toolset.of(run).word("no"))).toMatchObject({ kind: "tool" });
    expect(started).toBe(0);
    expect(errors).toEqual([]);
    expect(await toolset.of(run).split({ parts: [1, 2] })).toEqual({ half: 1 });
  });

  test("that defers returns no result, so none is checked; whoever has the token gives it", async () => {
    const tokens: string[] = [];
    const handlers = toolset.handlers({
      approve: async (_, { defer }) => {
        const deferred = await defer();
        tokens.push(deferred.token);
        void client.tasks.complete(deferred.token, { yes: true });
        return deferred;
      },
    });
    const run = await start(toolset, handlers);
    expect(await toolset.of(run).approve()).toEqual({ yes: true });
    expect(tokens).toHaveLength(1);
    expect(errors).toEqual([]);
  });

  test("answers what is left of its result when the schema has dropped what it does not know", async () => {
    const row = { half: 2, secret: "x" };
    const run = await start(toolset, toolset.handlers({ split: () => row }));
    expect(await toolset.of(run).split({ parts: [] })).toEqual({ half: 2 });
  });
});

test("a toolset in JSON Schema goes to the server as it is, and its handlers get what was given", async () => {
  const schema = { type: "object", properties: { a: { pattern: "^x" } }, additionalProperties: false };
  const toolset = defineToolset("json", {
    "a.b": { description: "One", input: jsonSchema<{ a: string }>(schema), policy: { maxAttempts: 2 } },
    a: { description: "At the head of the other", executor: "client" },
  });
  expect(toolset.declarations).toEqual({
    "a.b": { description: "One", input: schema, policy: { maxAttempts: 2 } },
    a: { description: "At the head of the other", executor: "client" },
  });
  const run = await start(toolset, toolset.handlers({ "a.b": (input) => input }));
  expect(await toolset.of(run).a.b({ a: "x" })).toEqual({ a: "x" });
  await expect(toolset.of(run).a.b({ a: "y" })).rejects.toMatchObject({ reason: "SCHEMA_VIOLATION" });
  const again = await client.toolsets.put(toolset.id, toolset.declarations);
  expect(again).toMatchObject({ changed: false });
});

test("patterns that the server cannot run are left out, also of properties that are called as keywords are", () => {
  const { declarations } = defineToolset("names", {
    word: {
      description: "Patterns",
      input: z.object({
        default: z.string().regex(/^(?=a)a$/),
        examples: z.string().regex(/^b$/),
        pattern: z.literal("(?=a)"),
        properties: z.object({ enum: z.string().regex(/(a)\1/) }),
      }),
    },
  });
  expect(declarations["word"]?.input).toMatchObject({
    properties: {
      default: { type: "string" },
      examples: { pattern: "^b$" },
      pattern: { const: "(?=a)" },
      properties: { properties: { enum: { type: "string" } } },
    },
  });
  expect(JSON.stringify(declarations)).not.toMatch(/"pattern":"(?!\^b\$)/);
});

describe("a definition is refused, with its place and what to do,", () => {
  const refused = (tool: ToolDefinitions[string]) => (): unknown => defineToolset("t", { x: tool });

  test("when its schema cannot write itself as JSON Schema, unless one is given besides", () => {
    const input = v.object({ a: v.string() });
    expect(refused({ description: "", input })).toThrow(
      'tools["x"].input: the schema, of valibot, cannot write itself as JSON Schema; allowed is one that can ' +
        "(zod's from zod 4.2 on, valibot's as toStandardJsonSchema of @valibot/to-json-schema makes it), " +
        "or give inputSchema besides",
    );
    const inputSchema = { type: "object" };
    expect(defineToolset("t", { x: { description: "", input, inputSchema } }).declarations).toEqual({
      x: { description: "", input: inputSchema },
    });
  });

  test("when JSON Schema has no words for it", () => {
    expect(refused({ description: "", output: z.object({ at: z.date() }) })).toThrow(
      /^tools\["x"\]\.output: zod cannot write the schema as JSON Schema \(.*Date.*\); give outputSchema besides$/,
    );
  });

  test("when there is no Standard Schema that a JSON Schema could stand for", () => {
    const schema = { type: "object" };
    expect(refused({ description: "", input: schema, inputSchema: schema })).toThrow(
      'tools["x"].inputSchema: input is a JSON Schema itself; allowed beside a Standard Schema',
    );
    expect(refused({ description: "", outputSchema: schema })).toThrow(
      'tools["x"].outputSchema: there is no output; allowed beside a Standard Schema',
    );
  });

  test("when a handler is of no tool of it, or of one that clients execute", () => {
    const toolset = defineToolset("t", {
      work: { description: "" },
      ask: { description: "", executor: "client" },
    });
    const handlers = toolset.handlers.bind(toolset) as (handlers: object) => unknown;
    expect(() => handlers({ wrok: () => 1 })).toThrow(
      'handlers["wrok"]: toolset t does not declare it; allowed are work, ask',
    );
    expect(() => handlers({ ask: () => 1 })).toThrow('handlers["ask"]: clients execute it');
    expect(() => handlers({ toString: () => 1 })).toThrow(/does not declare it/);
  });
});
