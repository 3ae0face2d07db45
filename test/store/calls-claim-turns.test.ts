import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  claimQueued,
  type ClaimGroup,
  type ClaimOutcome,
  type ClaimSlot,
} from "../../server/src/store/calls-claim.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import type { Database } from "../../server/src/store/database.js";
import { endRun, type RunRecord } from "../../server/src/store/runs.js";
import { putToolset } from "../../server/src/store/toolsets.js";
import {
  makeRun,
  makeSession,
  newName,
  newRow,
  PROJECT,
  SCOPE,
  useStore,
  type TestSession,
} from "./fixture.js";

const store = useStore();

const slotOf = (session: TestSession): ClaimSlot => ({
  claimId: newName("claim"),
  session: session.number,
  epoch: session.epoch,
  worker: "worker-1",
});

interface Asked extends Partial<ClaimGroup> {
  readonly tools: readonly string[];
  readonly session: TestSession;
}

function claim(db: Database, count: number, { session, ...group }: Asked): Promise<ClaimOutcome> {
  const slots = Array.from({ length: count }, () => slotOf(session));
  return claimQueued(db, {
    projectId: PROJECT,
    namespace: null,
    toolset: null,
    servedLast: "",
    slots,
    ...group,
  });
}

/** A call of a queue: its place in the order of opening, from 1, is its number. */
interface Queued {
  readonly namespace: string;
  readonly tool: string;
  readonly priority: number;
}

/** Queues calls in this order, with one run for each namespace. */
async function queue(calls: readonly Queued[]): Promise<void> {
  const runs = new Map<string, RunRecord>();
  for (const { namespace } of calls) {
    if (!runs.has(namespace)) runs.set(namespace, await makeRun(store.db, { namespace }));
  }
  const rows = calls.flatMap(({ namespace, tool, priority }, index) => {
    const run = runs.get(namespace);
    return run === undefined ? [] : [newRow(run, index + 1, { tool, priority })];
  });
  await insertCalls(store.db, rows);
}

/** `"a b a"`: a call of each of these namespaces. */
const callsOf = (tool: string, text: string): Queued[] =>
  text.split(" ").map((namespace) => ({ namespace, tool, priority: 0 }));

/** What was claimed, such as `"a1 b2"`. */
const names = ({ claimed }: ClaimOutcome): string =>
  claimed.map(({ record: { call } }) => `${call.namespace}${call.seq}`).join(" ");

/** Puts so many calls of one namespace into the queues of these tools. */
async function fill(namespace: string, tools: readonly string[], count: number): Promise<RunRecord> {
  const run = await makeRun(store.db, { namespace });
  await store.database.pool().query(
    `INSERT INTO calls (project_id, run_id, seq, key, namespace, tool, toolset, executor, mode, max_attempts,
      heartbeat_timeout_ms, detach_grace_ms, priority, traceparent, input, version, state, attempt, spent)
    SELECT 1, $1, n, n::text, $2, ($3::text[])[1 + n % cardinality($3::text[])], NULL, 'worker', 'retry', 5, 60000,
      10000, 0, '', '{}', 1, 'queued', 0, 0
    FROM generate_series(1, $4) n`,
    [run.id, namespace, tools, count],
  );
  return run;
}

describe("claims go round the namespaces", () => {
  test("one call of each is claimed in a round, the longest queued of each first", async () => {
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await queue(callsOf(tool, "a a a a b c b a"));
    const first = await claim(store.db, 6, { tools: [tool], session });
    expect([names(first), first.more]).toEqual(["c6 b5 a1 b7 a2 a3", true]);
    const rest = await claim(store.db, 6, { tools: [tool], session });
    expect([names(rest), rest.more]).toEqual(["a4 a8", false]);
  });

  test("with one slot at a time they alternate: the next one is that after the one which was served last", async () => {
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await queue(callsOf(tool, "a a a a b b c"));
    const order: string[] = [];
    let servedLast = "b";
    for (let round = 0; round < 7; round++) {
      const outcome = await claim(store.db, 1, { tools: [tool], session, servedLast });
      servedLast = outcome.claimed[0]?.record.call.namespace ?? "";
      order.push(names(outcome));
    }
    expect(order.join(" ")).toBe("a1 c7 b5 a2 b6 a3 a4");
  });

  test("the namespaces go round over all tools of a session, and each one's calls by their age", async () => {
    const session = await makeSession(store.db);
    const [one, two] = [newName("tool"), newName("tool")];
    const calls = [
      ...callsOf(two, "a b"),
      ...callsOf(one, "a a"),
      ...callsOf(two, "a"),
      ...callsOf(one, "c b"),
    ];
    await queue(calls);
    const outcome = await claim(store.db, 7, { tools: [one, two], session, servedLast: "c" });
    expect(names(outcome)).toBe("b2 a1 c6 b7 a3 a4 a5");
  });

  test("a higher priority goes before all turns, whoever's and of whichever tool it is", async () => {
    const session = await makeSession(store.db);
    const [one, two] = [newName("tool"), newName("tool")];
    await queue([
      ...callsOf(one, "a b c"),
      ...callsOf(two, "d"),
      ...[1, 1, 1, 1].map((priority) => ({ namespace: "a", tool: two, priority })),
      { namespace: "d", tool: one, priority: 2 },
    ]);
    const first = await claim(store.db, 3, { tools: [one, two], session });
    expect(names(first)).toBe("d9 a5 a6");
    const rest = await claim(store.db, 10, { tools: [one, two], session, servedLast: "c" });
    expect([names(rest), rest.more]).toEqual(["a7 a8 b2 a1 d4 c3", false]);
  });

  test("one end user's 10,000 calls hold up another's one for one call only", async () => {
    const session = await makeSession(store.db);
    const tools = ["one", "two"].map(newName);
    await fill("big", tools, 10_000);
    await queue(callsOf(tools[1] ?? "", "small"));
    const two = await claim(store.db, 2, { tools, session, servedLast: "small" });
    expect(names(two)).toBe("big1 small1");
    await queue(callsOf(tools[0] ?? "", "small"));
    const fifty = await claim(store.db, 50, { tools, session, servedLast: "big" });
    expect(fifty.claimed).toHaveLength(50);
    expect(names(fifty)).toMatch(/^small1 big2 big3 /);
  });

  test("calls that the sessions may not take hide no others, however many namespaces are full of them", async () => {
    const toolset = newName("toolset");
    await putToolset(store.db, SCOPE, toolset, []);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    const foreign = Array.from({ length: 60 }, (_, index) => ({
      namespace: `n${10 + index}`,
      tool,
      priority: index % 2,
    }));
    await queue(foreign);
    const run = await makeRun(store.db, { namespace: "m", toolset });
    await insertCalls(store.db, [newRow(run, 1, { tool }), newRow(run, 2, { tool })]);
    const asked = { tools: [tool], session, toolset, servedLast: "n30" };
    expect(names(await claim(store.db, 1, asked))).toBe("m1");
    const last = await claim(store.db, 2, asked);
    expect([names(last), last.more]).toEqual(["m2", false]);
  });

  test("calls of a run that has ended hold up nobody else's, and are not taken for an empty queue", async () => {
    const session = await makeSession(store.db);
    const tool = newName("tool");
    const run = await fill("z", [tool], 200);
    await queue(callsOf(tool, "a"));
    await endRun(store.db, PROJECT, run.id);
    expect(names(await claim(store.db, 1, { tools: [tool], session }))).toBe("a1");
    const none = await claim(store.db, 1, { tools: [tool], session });
    expect([names(none), none.more]).toEqual(["", true]);
  });

  test("namespaces with nothing but calls of ended runs are not taken for an empty queue either", async () => {
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await queue(callsOf(tool, "a"));
    for (const namespace of ["x", "y", "z"])
      await endRun(store.db, PROJECT, (await fill(namespace, [tool], 1)).id);
    const none = await claim(store.db, 1, { tools: [tool], session });
    expect([names(none), none.more]).toEqual(["", true]);
    expect(names(await claim(store.db, 4, { tools: [tool], session }))).toBe("a1");
  });

  test("slots that stay empty because their session has moved on do not make a queue look empty", async () => {
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await queue(callsOf(tool, "a b"));
    const moved = { ...session, epoch: session.epoch - 1 };
    const asked = { projectId: PROJECT, namespace: null, toolset: null, tools: [tool], servedLast: "" };
    const none = await claimQueued(store.db, { ...asked, slots: [slotOf(moved)] });
    expect([names(none), none.more]).toEqual(["", true]);
    const one = await claimQueued(store.db, { ...asked, slots: [slotOf(moved), slotOf(session)] });
    expect([names(one), one.more]).toEqual(["b2", true]);
  });
});

describe("claims by any slots from any queue", () => {
  const some = fc.record({
    calls: fc.array(
      fc.record({
        namespace: fc.constantFrom("a", "b", "c", "c", "c", "c", "c", "c", "d", "e", "f"),
        tool: fc.nat({ max: 2 }),
        priority: fc.constantFrom(0, 0, 0, 1, -1),
      }),
      { minLength: 1, maxLength: 60, size: "max" },
    ),
    tools: fc.integer({ min: 1, max: 3 }),
    rounds: fc.array(fc.constantFrom(1, 1, 2, 3, 5, 8, 20), { minLength: 100, maxLength: 100 }),
  });

  /** The claims that one after the other would be the right ones, as far as a round with these slots goes. */
  function expected(calls: readonly (Queued & { readonly seq: number })[], servedLast: string): string[] {
    const queued = [...calls].sort((a, b) => a.seq - b.seq);
    const order: string[] = [];
    for (const priority of [1, 0, -1]) {
      const rank = new Map<string, number>();
      const ranked = queued
        .filter((call) => call.priority === priority)
        .map((call) => {
          const nth = rank.get(call.namespace) ?? 0;
          rank.set(call.namespace, nth + 1);
          return { ...call, nth };
        });
      const place = (namespace: string): string => (namespace < servedLast ? "1" : "0") + namespace;
      ranked.sort((a, b) => a.nth - b.nth || (place(a.namespace) < place(b.namespace) ? 1 : -1));
      order.push(...ranked.map(({ namespace, seq }) => `${namespace}${seq}`));
    }
    return order;
  }

  test("take the highest priority, go round its namespaces and each one's calls by age, and leave none behind", async () => {
    const session = await makeSession(store.db);
    let exact = 0;
    await fc.assert(
      fc.asyncProperty(some, async ({ calls, tools, rounds }) => {
        const toolNames = Array.from({ length: tools }, () => newName("tool"));
        let left = calls.map((call, index) => ({
          ...call,
          tool: toolNames[call.tool % tools] ?? "",
          seq: index + 1,
        }));
        await queue(left);
        let servedLast = "";
        for (const count of rounds) {
          const outcome = await claim(store.db, count, { tools: toolNames, session, servedLast });
          const { claimed, more } = outcome;
          const order = expected(left, servedLast);
          const got = names(outcome) === "" ? [] : names(outcome).split(" ");
          expect(got[0]).toBe(order[0]);
          // With several tools a round may see fewer namespaces than it has slots.
          if (tools === 1) expect(got).toEqual(order.slice(0, got.length));
          if (got.length > 1 && tools === 1) exact++;
          const seqs = new Set(claimed.map(({ record }) => record.call.seq));
          const taken = left.filter(({ seq }) => seqs.has(seq));
          left = left.filter(({ seq }) => !seqs.has(seq));
          for (const one of taken) {
            expect(left.every((other) => other.priority <= one.priority)).toBe(true);
            const passed = left.filter((other) => other.namespace === one.namespace && other.seq < one.seq);
            expect(passed.every((other) => other.priority < one.priority)).toBe(true);
          }
          if (!more) expect(left).toEqual([]);
          if (left.length === 0 && !more) return;
          servedLast = claimed.at(-1)?.record.call.namespace ?? servedLast;
        }
        expect(left).toEqual([]);
      }),
      { numRuns: 60 },
    );
    expect(exact).toBeGreaterThan(20);
  });
});
