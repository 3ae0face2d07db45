/*
 * Compiled with all tests (`tsc -b`), never run: where it says that something does not compile, it does not.
 */
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { expectTypeOf } from "vitest";
import { z } from "zod";
import { defineToolset, jsonSchema, type Deferred, type Run, type Trunkline } from "@trunkline/sdk";

declare const client: Trunkline;
declare const run: Run;

interface Customer {
  name: string;
  plan: "free" | "pro";
}

const withZod = defineToolset("zod", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: z.object({ email: z.string(), limit: z.number().default(1) }),
    output: z.object({ name: z.string(), plan: z.enum(["free", "pro"]) }),
  },
  ping: { description: "Answers" },
});

/** One declaration per library, of the same types: `limit` has a default, so that callers may leave it out. */
const withValibot = defineToolset("valibot", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: toStandardJsonSchema(v.object({ email: v.string(), limit: v.optional(v.number(), 1) })),
    output: toStandardJsonSchema(v.object({ name: v.string(), plan: v.picklist(["free", "pro"]) })),
  },
});

const withArktype = defineToolset("arktype", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: type({ email: "string", limit: "number = 1" }),
    output: type({ name: "string", plan: "'free' | 'pro'" }),
  },
});

const withJsonSchema = defineToolset("json", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: jsonSchema<{ email: string; limit: number }>({ type: "object", required: ["email", "limit"] }),
    output: jsonSchema<Customer>({ type: "object" }),
  },
  untyped: { description: "Anything", input: { type: "object" }, output: { type: "string" } },
});

export function zodTypes(): void {
  withZod.handlers({
    "crm.find_customer": async (input, context) => {
      expectTypeOf(input).toEqualTypeOf<{ email: string; limit: number }>();
      expectTypeOf(context.runId).toBeString();
      return { name: input.email, plan: "free" };
    },
    ping: (input) => {
      expectTypeOf(input).toBeUnknown();
      return "pong";
    },
  });
  // @ts-expect-error -- "gold" is no plan
  withZod.handlers({ "crm.find_customer": async () => ({ name: "Ada", plan: "gold" as const }) });
  // @ts-expect-error -- no result
  withZod.handlers({ "crm.find_customer": async () => undefined });
  const ofNumbers = (input: { email: number }) => ({ name: `${input.email}`, plan: "pro" as const });
  // @ts-expect-error -- the email is a text
  withZod.handlers({ "crm.find_customer": ofNumbers });
  // @ts-expect-error -- the toolset does not declare it
  withZod.handlers({ "crm.find_costumer": () => ({ name: "Ada", plan: "pro" }) });

  const { crm, ping } = withZod.of(run);
  expectTypeOf(crm.find_customer({ email: "a" })).toEqualTypeOf<Promise<Customer>>();
  expectTypeOf(ping()).toEqualTypeOf<Promise<unknown>>();
  void crm.find_customer({ email: "a", limit: 2 }, { key: "k", turn: 1 });
  // @ts-expect-error -- the email is a text
  void crm.find_customer({ email: 1 });
  // @ts-expect-error -- it is missing
  void crm.find_customer({});
  // @ts-expect-error -- so is the whole input
  void crm.find_customer();
  expectTypeOf(crm).not.toHaveProperty("find_costumer");
  // @ts-expect-error -- there is no such option
  void crm.find_customer({ email: "a" }, { keys: "k" });
}

export function valibotTypes(): void {
  withValibot.handlers({
    "crm.find_customer": (input) => {
      expectTypeOf(input).toEqualTypeOf<{ email: string; limit: number }>();
      return { name: input.email, plan: "free" };
    },
  });
  // @ts-expect-error -- "gold" is no plan
  withValibot.handlers({ "crm.find_customer": () => ({ name: "Ada", plan: "gold" as const }) });
  expectTypeOf(withValibot.of(run).crm.find_customer({ email: "a" })).toEqualTypeOf<Promise<Customer>>();
  // @ts-expect-error -- the email is a text
  void withValibot.of(run).crm.find_customer({ email: 1 });
}

export function arktypeTypes(): void {
  withArktype.handlers({
    "crm.find_customer": (input) => {
      expectTypeOf(input).toEqualTypeOf<{ email: string; limit: number }>();
      return { name: input.email, plan: "free" };
    },
  });
  // @ts-expect-error -- "gold" is no plan
  withArktype.handlers({ "crm.find_customer": () => ({ name: "Ada", plan: "gold" as const }) });
  expectTypeOf(withArktype.of(run).crm.find_customer({ email: "a" })).toEqualTypeOf<Promise<Customer>>();
  // @ts-expect-error -- the email is a text
  void withArktype.of(run).crm.find_customer({ email: 1 });
}

export function jsonSchemaTypes(): void {
  withJsonSchema.handlers({
    "crm.find_customer": (input) => {
      expectTypeOf(input).toEqualTypeOf<{ email: string; limit: number }>();
      return { name: input.email, plan: "free" };
    },
    untyped: (input) => {
      expectTypeOf(input).toBeUnknown();
      return input;
    },
  });
  // @ts-expect-error -- "gold" is no plan
  withJsonSchema.handlers({ "crm.find_customer": () => ({ name: "Ada", plan: "gold" as const }) });
  const { crm, untyped } = withJsonSchema.of(run);
  expectTypeOf(crm.find_customer({ email: "a", limit: 1 })).toEqualTypeOf<Promise<Customer>>();
  expectTypeOf(untyped({ any: "thing" })).toEqualTypeOf<Promise<unknown>>();
  // @ts-expect-error -- the limit is missing
  void crm.find_customer({ email: "a" });
}

const events = defineToolset("events", {
  "day.of": {
    description: "What comes out of a schema may be another type than goes in",
    input: z.object({ at: z.iso.datetime().transform((at) => new Date(at)) }),
    output: z.object({ day: z.coerce.string() }),
  },
  "day.next": {
    description: "JSON carries no dates",
    output: v.object({ at: v.pipe(v.string(), v.toDate()) }),
    outputSchema: { type: "object" },
  },
  day: { description: "A tool at the head of others", input: z.number(), output: z.string() },
  "ask.user": {
    description: "A person answers",
    input: z.object({ question: z.string() }),
    output: z.string(),
    executor: "client",
  },
});

export function transformedTypes(): void {
  events.handlers({
    "day.of": ({ at }) => {
      expectTypeOf(at).toEqualTypeOf<Date>();
      return { day: at.getUTCDay() };
    },
    "day.next": () => ({ at: "2026-11-30" }),
  });
  const { day } = events.of(run);
  expectTypeOf(day.of({ at: "2026-11-30T12:00:00Z" })).toEqualTypeOf<Promise<{ day: string }>>();
  expectTypeOf(day.next()).toEqualTypeOf<Promise<{ at: string }>>();
  expectTypeOf(day(1)).toEqualTypeOf<Promise<string>>();
  // @ts-expect-error -- a caller gives what goes in
  void day.of({ at: new Date() });
}

export function deferringAndClientTools(): void {
  events.handlers({ day: (_, { defer }) => defer({ timeout: "3d" }) });
  events.handlers({
    day: async (_, { defer }) => {
      const deferred = await defer();
      expectTypeOf(deferred).toEqualTypeOf<Deferred>();
      return deferred;
    },
  });
  // @ts-expect-error -- no worker executes it
  events.handlers({ "ask.user": () => "yes" });
  expectTypeOf(events.of(run).ask.user({ question: "?" })).toEqualTypeOf<Promise<string>>();
}

export function sameFromTheRun(): void {
  expectTypeOf(run.tools(withZod)).toEqualTypeOf(withZod.of(run));
  expectTypeOf(run.tools<{ ping(input: null): number }>().ping(null)).toEqualTypeOf<Promise<number>>();
  client.worker({ tools: { ...withZod.handlers({ ping: () => 1 }), ...events.handlers({}) } });
  void client.toolsets.put(withZod.id, withZod.declarations);
}

export function wrongDefinitions(): void {
  // @ts-expect-error -- a tool has a description
  defineToolset("none", { ping: {} });
  // @ts-expect-error -- there is no such executor
  defineToolset("none", { ping: { description: "", executor: "browser" } });
}
