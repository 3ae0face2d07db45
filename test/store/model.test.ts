import fc from "fast-check";
import { expect, test } from "vitest";
import { isEnded, type Call } from "../../server/src/core/call.js";
import type { CallEvent, Change, Timer, Timers } from "../../server/src/core/event.js";
import type { Answer, Failure } from "../../server/src/core/failure.js";
import { DEFAULT_POLICY, type Policy } from "../../server/src/core/policy.js";
import { birth, decide } from "../../server/src/core/transition.js";
import { claimQueued } from "../../server/src/store/calls-claim.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import { loadCalls, loadRecords } from "../../server/src/store/calls-read.js";
import { endCalls, saveCalls, type SaveItem } from "../../server/src/store/calls-save.js";
import type { CallRecord, Instant } from "../../server/src/store/rows.js";
import { makeRun, makeSession, newName, newRow, PROJECT, useStore, type TestSession } from "./fixture.js";

const store = useStore();

const TIMERS = ["ready", "attempt", "defer", "total"] as const;

/** A call that lives in memory, by `core` alone, beside the stored one. */
interface Model {
  call: Call;
  /** The stored times as they were last seen, and which of them must be there. */
  due: Readonly<Record<(typeof TIMERS)[number], Instant | "set" | null>>;
  history: { readonly number: number; readonly failure: Failure }[];
  /** Every item that was saved, to be tried again as a late one. */
  readonly saved: SaveItem[];
  readonly claimIds: string[];
  readonly hashes: string[];
}

const failure = fc.record({
  kind: fc.constantFrom("tool", "exception", "invalid_answer"),
  message: fc.string({ unit: "binary" }),
  dataJson: fc.option(fc.json(), { nil: null }),
  retryable: fc.boolean(),
  outcomeUnknown: fc.constant(false),
}) satisfies fc.Arbitrary<Failure>;

const answer: fc.Arbitrary<Answer> = fc.oneof(
  fc.record({ type: fc.constant("result"), resultJson: fc.json() }),
  fc.record({ type: fc.constant("failure"), failure }),
);

const someMs = fc.option(fc.integer({ min: 1, max: 10 * 365 * 86_400_000 }), { nil: null });

const policy: fc.Arbitrary<Policy> = fc.oneof(
  fc.constant(DEFAULT_POLICY),
  fc.record({
    mode: fc.constantFrom("retry", "at_most_once"),
    maxAttempts: fc.integer({ min: 1, max: 3 }),
    backoffInitialMs: fc.constant(1_000),
    backoffFactor: fc.constantFrom(1, 1.5, 2),
    backoffMaxMs: fc.constant(60_000),
    heartbeatTimeoutMs: fc.integer({ min: 15_000, max: 10 * 365 * 86_400_000 }),
    detachGraceMs: fc.integer({ min: 1, max: 15_000 }),
    attemptTimeoutMs: someMs,
    totalTimeoutMs: someMs,
    deferTimeoutMs: someMs,
  }),
);

const step = fc.record({
  type: fc.constantFrom(
    ...([
      "claim",
      "claim",
      "claim",
      "accept",
      "release",
      "take_back",
      "lease_ended",
      "answer",
      "defer",
    ] as const),
    ...(["settle", "settle_by_token", "issue_token", "cancel", "due", "due", "due"] as const),
  ),
  cause: fc.constantFrom("unframed", "disowned", "undelivered"),
  cancel: fc.constantFrom("canceled", "run_ended", "run_expired"),
  answer,
  /** Mostly the last claim, token or attempt; sometimes an older one. */
  back: fc.constantFrom(0, 0, 0, 0, 1),
  timeoutMs: someMs,
  passed: fc.constantFrom(...TIMERS),
  random: fc.double({ min: 0, max: 1, noNaN: true }),
});

const plan = fc.record({
  policy,
  client: fc.constantFrom(false, false, false, true),
  born: fc.constantFrom("queued", "claimed", "claimed by an old epoch"),
  steps: fc.array(step, { minLength: 3, maxLength: 14 }),
});

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type Plan = typeof plan extends fc.Arbitrary<infer T> ? T : never;

function eventOf(model: Model, given: Step): CallEvent {
  const claimId = model.claimIds.at(-1 - given.back) ?? "none";
  const tokenHash = model.hashes.at(-1 - given.back) ?? "00";
  switch (given.type) {
    case "claim":
      return { type: "claim", claimId: newName("claim"), session: 0, worker: "worker-1" };
    case "accept":
    case "release":
    case "lease_ended":
      return { type: given.type, claimId };
    case "take_back":
      return { type: "take_back", claimId, cause: given.cause };
    case "answer":
      return { type: "answer", claimId, answer: given.answer };
    case "defer":
      return { type: "defer", claimId, tokenHash: newName("hash"), timeoutMs: given.timeoutMs };
    case "settle":
      return {
        type: "settle",
        attempt: given.back === 0 ? null : model.call.attempt - 1,
        answer: given.answer,
      };
    case "settle_by_token":
      return { type: "settle_by_token", attempt: model.call.attempt, tokenHash, answer: given.answer };
    case "issue_token":
      return { type: "issue_token", tokenHash: newName("hash") };
    case "cancel":
      return { type: "cancel", cause: given.cancel };
    case "due": {
      const { passed } = given;
      const flags = { ready: passed === "ready", attempt: passed === "attempt", defer: passed === "defer" };
      return { type: "due", ...flags, total: passed === "total" };
    }
  }
}

/** Which stored times a change leaves, sets or clears. */
function dueAfter(due: Model["due"], timers: Timers): Model["due"] {
  const after = (name: (typeof TIMERS)[number], timer: Timer): Instant | "set" | null => {
    if (timer === "keep") return due[name];
    return timer === "clear" ? null : "set";
  };
  return {
    ready: after("ready", timers.ready),
    attempt: after("attempt", timers.attempt),
    defer: after("defer", timers.defer),
    total: after("total", timers.total),
  };
}

function remember(model: Model, change: Change, item: SaveItem | null): void {
  model.call = change.next;
  model.due = dueAfter(model.due, change.timers);
  if (change.failedAttempt !== null) model.history = [...model.history, change.failedAttempt].slice(-20);
  if (item !== null) model.saved.push(item);
  if (change.next.claim !== null && !model.claimIds.includes(change.next.claim.id)) {
    model.claimIds.push(change.next.claim.id);
  }
  for (const { hash } of change.next.tokens) if (!model.hashes.includes(hash)) model.hashes.push(hash);
}

/** Checks a stored call against its model, and takes over the times that the database worked out. */
function compare(model: Model, record: CallRecord | null | undefined): void {
  expect(record?.call).toEqual(model.call);
  if (record === null || record === undefined) return;
  const stored = {
    ready: record.readyAt,
    attempt: record.attemptTimeoutAt,
    defer: record.deferTimeoutAt,
    total: record.totalTimeoutAt,
  };
  for (const name of TIMERS) {
    const due = model.due[name];
    if (due === "set") expect(stored[name], name).toBeTypeOf("number");
    else expect(stored[name], name).toBe(due);
  }
  model.due = stored;
  expect(record.attempts.map(({ number, failure: why }) => ({ number, failure: why }))).toEqual(
    model.history,
  );
  expect(record.endedAt !== null).toBe(isEnded(model.call));
  expect(model.call.spent).toBeLessThanOrEqual(model.call.policy.maxAttempts);
}

async function bear(plans: readonly Plan[], session: TestSession): Promise<Model[]> {
  const run = await makeRun(store.db);
  const rows = plans.map((each, index) => {
    const patch = {
      tool: newName("tool"),
      executor: each.client ? ("client" as const) : ("worker" as const),
      policy: each.policy,
    };
    const epoch = each.born === "claimed" ? session.epoch : session.epoch - 1;
    const direct =
      each.client || each.born === "queued" ? {} : { session: { number: session.number, epoch } };
    return newRow(run, index + 1, { ...patch, ...direct });
  });
  const outcomes = await insertCalls(store.db, rows);
  return rows.map((row, index) => {
    const outcome = outcomes[index];
    expect(outcome).toMatchObject({
      type: "inserted",
      claimed: plans[index]?.born === "claimed" && !plans[index].client,
    });
    const refused = row.call.state === "claimed" && outcome?.type === "inserted" && !outcome.claimed;
    const { call, timers } = refused ? birth(row.call, null) : row;
    return {
      call,
      due: dueAfter({ ready: null, attempt: null, defer: null, total: null }, timers),
      history: [],
      saved: [],
      claimIds: call.claim === null ? [] : [call.claim.id],
      hashes: [],
    };
  });
}

/** A claim goes through the claim statement, and must be what `decide` says of it. */
async function claim(
  model: Model,
  event: CallEvent & { type: "claim" },
  session: TestSession,
): Promise<void> {
  const slot = {
    claimId: event.claimId,
    session: session.number,
    epoch: session.epoch,
    worker: event.worker,
  };
  const outcome = await claimQueued(store.db, {
    projectId: PROJECT,
    namespace: null,
    toolset: null,
    tools: [model.call.tool],
    servedLast: "",
    slots: [slot],
  });
  const { change } = decide(model.call, { ...event, session: session.number }, 0);
  expect(outcome.claimed[0]?.record.call).toEqual(change?.next);
  if (change !== null) remember(model, change, null);
}

async function advance(
  models: readonly Model[],
  plans: readonly Plan[],
  turn: number,
  session: TestSession,
): Promise<void> {
  const items: { readonly model: Model; readonly item: SaveItem }[] = [];
  for (const [index, model] of models.entries()) {
    const given = plans[index]?.steps[turn];
    if (given === undefined) continue;
    const event = eventOf(model, given);
    if (event.type === "claim") {
      await claim(model, event, session);
      continue;
    }
    const { change } = decide(model.call, event, given.random);
    if (change !== null) items.push({ model, item: { before: model.call, change } });
  }
  const ends = items.filter(({ item }) => isEnded(item.change.next));
  const saves = items.filter(({ item }) => !isEnded(item.change.next));
  const outcomes = [
    ...(await endCalls(
      store.db,
      ends.map(({ item }) => item),
    )),
    ...(await saveCalls(
      store.db,
      saves.map(({ item }) => item),
    )),
  ];
  expect(outcomes.map(({ type }) => type)).toEqual(items.map(() => "saved"));
  for (const { model, item } of items) remember(model, item.change, item);
}

/** What was saved once comes again, late: each must find its row moved on. */
async function saveLate(models: readonly Model[]): Promise<void> {
  const late = models.flatMap(({ saved }) => saved.at(-1) ?? []);
  const ends = late.filter(({ change }) => isEnded(change.next));
  const saves = late.filter(({ change }) => !isEnded(change.next));
  const outcomes = [...(await endCalls(store.db, ends)), ...(await saveCalls(store.db, saves))];
  expect(outcomes.every(({ type }) => type === "stale")).toBe(true);
}

test("a stored call goes through any sequence of events as the state machine does (I1, I2, I3, I4)", async () => {
  const session = await makeSession(store.db);
  let sequences = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 40, size: "max" }), async (plans) => {
      sequences += plans.length;
      const models = await bear(plans, session);
      const refs = models.map(({ call }) => call);
      const longest = Math.max(...plans.map(({ steps }) => steps.length));
      for (let turn = -1; turn < longest; turn++) {
        if (turn >= 0) await advance(models, plans, turn, session);
        await saveLate(models);
        const records = await loadRecords(store.db, refs);
        models.forEach((model, index) => compare(model, records[index]));
      }
      expect(await loadCalls(store.db, refs)).toEqual(models.map(({ call }) => call));
    }),
    { numRuns: 40 },
  );
  expect(sequences).toBeGreaterThan(300);
}, 60_000);
