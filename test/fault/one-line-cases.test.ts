import { describe, expect, test } from "vitest";
import { HostToolError, type Page, type ToolContext } from "@trunkline/sdk";
import { useStack } from "../support/stack.js";
import { until, within } from "../support/until.js";

const stack = useStack();

async function all<T>(first: Promise<Page<T>>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of await first) items.push(item);
  return items;
}

describe("S10: pages of what was stored in the same instant", () => {
  test("hold every call once, and in order", async () => {
    const run = await stack.client.runs.create();
    const calls = await Promise.all(Array.from({ length: 100 }, (_, at) => run.open("unserved", at)));
    const listed = await all(stack.client.calls.list({ run: run.id, pageSize: 7 }));
    const newestFirst = calls.map(({ id }) => id).sort((a, b) => seqOf(b) - seqOf(a));
    expect(listed.map(({ id }) => id)).toEqual(newestFirst);
  });

  test("hold every run once", async () => {
    const labels = { at: "once" };
    const runs = await Promise.all(Array.from({ length: 50 }, () => stack.client.runs.create({ labels })));
    const listed = await all(stack.client.runs.list({ labels, pageSize: 7 }));
    expect(listed.map(({ id }) => id).sort()).toEqual(runs.map(({ id }) => id).sort());
  });
});

const seqOf = (callId: string): number => Number(callId.split("/")[1]);

describe("S15: a name __proto__", () => {
  test("in input, result, failure data and labels is data like any other, all the way", async () => {
    await using client = stack.newClient();
    const own = JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as object;
    let seen: ToolContext["labels"] = {};
    client.worker({
      tools: {
        proto_echo: (input, { labels }) => {
          seen = labels;
          return input;
        },
        proto_fail: (input) => {
          throw new HostToolError("with data", { data: input });
        },
      },
    });
    const labels = JSON.parse('{"__proto__":"a label","constructor":"another"}') as Record<string, string>;
    const run = await client.runs.create({ labels });
    const call = await run.open("proto_echo", own);
    const outcome = await call.outcome();
    expect(outcome.resultJson).toBe(JSON.stringify(own));
    expect(Object.keys(outcome.result as object)).toEqual(["__proto__", "constructor"]);
    expect((outcome.result as { polluted?: unknown }).polluted).toBeUndefined();
    expect(Object.entries(seen)).toEqual(Object.entries(labels));
    const stored = await client.runs.get(run.id);
    expect(Object.entries(stored.labels)).toEqual(Object.entries(labels));
    const failed = await (await run.open("proto_fail", own)).outcome();
    expect(failed.error?.dataJson).toBe(JSON.stringify(own));
    expect(Object.prototype).not.toHaveProperty("polluted");
  });
});

describe("S16: a bogus completion token", () => {
  test.each([
    ["that is no token", "bogus"],
    ["of a call that is not there", `00000000-0000-7000-8000-000000000000/1.1.${"A".repeat(43)}`],
  ])("%s is refused at once by each request, and not tried again", async (_, token) => {
    const { tasks } = stack.client;
    const refused = { reason: "TOKEN_INVALID", code: "NOT_FOUND" };
    const requests = [tasks.complete(token, 1), tasks.fail(token, { message: "no" }), tasks.get(token)];
    const refusals = requests.map((request) => expect(request).rejects.toMatchObject(refused));
    await within("the refusals", Promise.all(refusals), 3_000);
  });

  test("that is empty is refused before it is sent, with the field's name", async () => {
    const { tasks } = stack.client;
    const refused = { reason: "INVALID_FIELD", metadata: { field: "token" } };
    await expect(tasks.complete("", 1)).rejects.toMatchObject(refused);
    await expect(tasks.fail("", { message: "no" })).rejects.toMatchObject(refused);
    await expect(tasks.get("")).rejects.toMatchObject(refused);
  });

  test("whose secret is wrong is refused as one of a call that is not there, and changes nothing", async () => {
    await using client = stack.newClient();
    const tokens: string[] = [];
    client.worker({
      tools: { asks: async (_, { defer }) => void tokens.push((await defer()).token) },
    });
    const run = await client.runs.create();
    const call = await run.open("asks");
    await stack.inState(call.id, "deferred");
    const wrong = `${call.id}.1.${"A".repeat(43)}`;
    const missing = `${run.id}/99.1.${"A".repeat(43)}`;
    const [a, b] = await Promise.all(
      [wrong, missing].map((token) =>
        client.tasks.complete(token, 1).catch((error: unknown) => String(error)),
      ),
    );
    expect(a).toBe(b);
    expect(await call.status()).toMatchObject({ state: "deferred" });
  });
});

/** Resolves when a worker has nothing to do with the call any more. */
async function leaves(callId: string): Promise<void> {
  await until(`${callId} is over`, async () => {
    const { state } = await stack.client.calls.get(callId);
    return state !== "queued" && state !== "claimed";
  });
}

describe("S18: a slot whose handler ended badly", () => {
  test("is free for the next call, whatever the end was, and never counted twice", async () => {
    await using client = stack.newClient();
    let running = 0;
    let most = 0;
    const ends: readonly ((context: ToolContext) => unknown)[] = [
      () => Promise.reject(new Error("rejected")),
      () => Promise.reject(new HostToolError("on purpose")),
      // A handler in JavaScript may throw and return anything.
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
      () => Promise.reject(undefined),
      () => undefined,
      () => Number.NaN,
      () => "x".repeat(2 * 1024 * 1024),
      ({ defer }) => defer({ timeout: "no duration" }),
      ({ defer }) => void defer(),
      () => "good",
    ];
    client.worker({
      concurrency: 2,
      tools: {
        ends_badly: async (input, context) => {
          most = Math.max(most, ++running);
          try {
            return await ends[Number(input)]?.(context);
          } finally {
            running--;
          }
        },
        canceled: (_, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(new Error("canceled")));
          }),
      },
      onError: () => undefined,
    });
    const run = await client.runs.create();
    for (let round = 0; round < 3; round++) {
      const canceled = await Promise.all([run.open("canceled"), run.open("canceled")]);
      await Promise.all(canceled.map(({ id }) => stack.inState(id, "claimed")));
      await Promise.all(canceled.map((call) => call.cancel()));
      const calls = await Promise.all(ends.map((_, at) => run.open("ends_badly", at)));
      await Promise.all(calls.map(({ id }) => leaves(id)));
    }
    const good = ends.length - 1;
    const results = await within(
      "ten more calls",
      Promise.all(Array.from({ length: 10 }, () => run.call("ends_badly", good))),
    );
    expect(results).toEqual(Array(10).fill("good"));
    expect(most).toBe(2);
  });
});
