import { describe, expect, test } from "vitest";
import type { CallEvent } from "../../server/src/core/event.js";
import type { Applied } from "../../server/src/exchange/call-writer.js";
import type { Exchange } from "../../server/src/exchange/exchange.js";
import type { KnownRun } from "../../server/src/exchange/runs.js";
import { cancelOpenCalls, endRun } from "../../server/src/exchange/run-end.js";
import { TrunklineError } from "../../server/src/core/error.js";
import {
  attach,
  callOf,
  emptyQueues,
  knownRun,
  newRun,
  open,
  request,
  result,
  SCOPE,
  useExchanges,
} from "./support/exchanges.js";

const nodes = useExchanges();

const reasonOf = (error: unknown): string => (error instanceof TrunklineError ? error.reason : String(error));

const verdictOf = ({ verdict }: Applied): string => {
  if (!verdict.ok) return verdict.reason;
  return verdict.repeat ? "repeat" : "done";
};

const failure = (message: string, retryable = false) => ({
  type: "failure" as const,
  failure: { kind: "tool" as const, message, dataJson: null, retryable, outcomeUnknown: false },
});

describe("two items for one row", () => {
  test("an answer and a settlement at once: one of them counts, and each is told which", async () => {
    const { exchange } = await nodes.start();
    const worker = await attach(exchange, { tools: ["answer-and-settle"], slots: 100 });
    const run = await newRun(exchange);
    for (let round = 0; round < 20; round++) {
      const call = await open(exchange, run, { tool: "answer-and-settle" });
      const { call: claimed } = await worker.offerOf(call);
      const events: CallEvent[] = [
        { type: "answer", claimId: claimed.claim.id, answer: result('"worker"') },
        { type: "settle", attempt: null, answer: result('"harness"') },
      ];
      if (round % 2 === 0) events.reverse();
      const applied = await Promise.all(events.map((event) => exchange.apply(call, event, SCOPE)));
      const first = events[0]?.type === "answer" ? "worker" : "harness";
      expect(applied.map(verdictOf)).toEqual(["done", first === "worker" ? "CALL_ENDED" : "CLAIM_LOST"]);
      expect((await nodes.call(call)).result).toBe(first);
    }
  });

  test("fifty events on one call at once: one wins, the others get its repeat or a refusal, and none vanishes", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const call = await open(exchange, run, { tool: "fifty" });
    const answers = Array.from({ length: 50 }, (_, index) => String(index % 5));
    const applied = await Promise.all(
      answers.map((answer) =>
        exchange.apply(call, { type: "settle", attempt: null, answer: result(answer) }, SCOPE),
      ),
    );
    const stored = String((await nodes.call(call)).result);
    const verdicts = applied.map(verdictOf);
    expect(verdicts.filter((verdict) => verdict === "done")).toHaveLength(1);
    answers.forEach((answer, index) => {
      expect(["done", "repeat"].includes(verdicts[index]!)).toBe(answer === stored);
    });
  });

  test("fifty events from two nodes at once: exactly one kind of outcome is confirmed, the one that is stored", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    for (let round = 0; round < 10; round++) {
      const call = await open(one.exchange, run, { tool: "two-nodes" });
      const messages = Array.from({ length: 50 }, (_, index) => `m${index % 7}`);
      const applied = await Promise.all(
        messages.map((message, index) =>
          (index % 2 === 0 ? one : two).exchange.apply(
            call,
            { type: "settle", attempt: null, answer: failure(message) },
            SCOPE,
          ),
        ),
      );
      const stored = (await nodes.call(call)).failure?.message;
      messages.forEach((message, index) => {
        expect([message, verdictOf(applied[index]!) !== "CALL_ENDED"]).toEqual([message, message === stored]);
      });
      expect((await nodes.call(call)).version).toBe(2);
    }
  });

  test("an event that takes time to prepare keeps its place, and one that cannot be prepared harms no other", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const call = await open(exchange, run, { tool: "prepared" });
    const settle = (json: string): CallEvent => ({ type: "settle", attempt: null, answer: result(json) });
    const refused = exchange.apply(call, Promise.reject(new Error("no tool")), SCOPE);
    const first = exchange.apply(
      call,
      exchange.load(call).then(() => settle("1")),
      SCOPE,
    );
    const second = exchange.apply(call, settle("2"), SCOPE);
    await expect(refused).rejects.toThrow("no tool");
    expect([verdictOf(await first), verdictOf(await second)]).toEqual(["done", "CALL_ENDED"]);
  });

  test("of two failures at two nodes at once, each that is confirmed is a failed attempt of its own", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const call = await open(one.exchange, run, { executor: "client", policy: { maxAttempts: 1_000 } });
    let confirmed = 0;
    for (let round = 0; round < 20; round++) {
      const applied = await Promise.all(
        [one, two].map(({ exchange }, index) => {
          const answer = failure(`round ${round}, node ${index}`, true);
          return exchange.apply(call, { type: "settle", attempt: null, answer }, SCOPE);
        }),
      );
      confirmed += applied.filter((each) => verdictOf(each) === "done").length;
    }
    expect((await nodes.call(call)).attempt).toBe(1 + confirmed);
  });

  test("tokens issued on two nodes at once are all good", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const call = await open(one.exchange, run, { executor: "client" });
    const hashes = Array.from({ length: 20 }, (_, index) => index.toString(16).padStart(64, "0"));
    await Promise.all(
      hashes.map((tokenHash, index) =>
        (index % 2 === 0 ? one : two).exchange.apply(call, { type: "issue_token", tokenHash }, SCOPE),
      ),
    );
    const stored = await one.exchange.load(call);
    expect(stored?.tokens.map(({ hash }) => hash).sort()).toEqual(hashes);
  });

  test("an event for another project's or end user's call finds none (I7)", async () => {
    const { exchange } = await nodes.start();
    const call = await open(exchange, await newRun(exchange));
    for (const scope of [
      { projectId: 2, namespace: null },
      { projectId: 1, namespace: "bob" },
    ]) {
      const settled = exchange.apply(call, { type: "settle", attempt: null, answer: result("1") }, scope);
      await expect(settled.catch(reasonOf)).resolves.toBe("NOT_FOUND");
    }
    expect((await nodes.call(call)).state).toBe("queued");
  });
});

describe("a run that ends under opens", () => {
  test.each([
    ["first", 0],
    ["in between", 1],
    ["last", 2],
  ])("its end coming %s leaves no call open, on one node or two", async (_when, place) => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    for (let round = 0; round < 8; round++) {
      const run = await newRun(one.exchange);
      const elsewhere = await knownRun(two.exchange, run.record.id);
      const opens = (): Promise<string>[] =>
        Array.from({ length: 40 }, (_, index) =>
          (index % 2 === 0
            ? one.exchange.open(request(run, { tool: "ending" }))
            : two.exchange.open(request(elsewhere, { tool: "ending" }))
          ).then(() => "created", reasonOf),
        );
      const steps = [opens, opens];
      const outcomes: Promise<string>[] = [];
      let ended: Promise<unknown> = Promise.resolve();
      for (let step = 0; step <= steps.length; step++) {
        if (step === place)
          ended = endRun(round % 2 === 0 ? one.exchange : two.exchange, SCOPE, run.record.id);
        outcomes.push(...(steps[step]?.() ?? []));
      }
      await ended;
      const told = await Promise.all(outcomes);
      expect(told.every((outcome) => outcome === "created" || outcome === "RUN_ENDED")).toBe(true);
      // What was opened just before the end is canceled by its sweep, if not by the end itself.
      await cancelOpenCalls(one.exchange, run.record, "run_ended");
      const { rows } = await nodes.database
        .pool()
        .query<{ state: string }>("SELECT state FROM calls WHERE run_id = $1", [run.record.id]);
      expect(rows).toHaveLength(told.filter((outcome) => outcome === "created").length);
      expect(rows.every(({ state }) => state === "canceled")).toBe(true);
    }
  });

  test("no claim is made in a run that has ended, and its workers' claims are revoked", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const waiting = await open(exchange, run, { tool: "ended-queue" });
    await nodes.database
      .pool()
      .query("UPDATE runs SET state = 'ended', ended_at = now() WHERE id = $1", [run.record.id]);
    const worker = await attach(exchange, { tools: ["ended-queue"] });
    await exchange.dispatch.poll();
    const other = await newRun(exchange);
    const held = await open(exchange, other, { tool: "ended-queue" });
    const { call } = await worker.offerOf(held);
    await endRun(exchange, SCOPE, other.record.id);
    expect(worker.revoked).toEqual([{ claimId: call.claim.id, cause: "run_ended" }]);
    expect(worker.offers).toHaveLength(1);
    expect((await nodes.call(waiting)).state).toBe("queued");
  });

  test("an attempt that fails for a retry in an ended run ends its call as canceled", async () => {
    const { exchange } = await nodes.start();
    const worker = await attach(exchange, { tools: ["fails-late"] });
    const run = await newRun(exchange);
    const call = await open(exchange, run, { tool: "fails-late" });
    const offer = await worker.offerOf(call);
    await nodes.database
      .pool()
      .query("UPDATE runs SET state = 'ended', ended_at = now() WHERE id = $1", [run.record.id]);
    const { verdict } = await exchange.apply(
      call,
      { type: "answer", claimId: offer.call.claim.id, answer: failure("again", true) },
      SCOPE,
    );
    expect(verdict.ok).toBe(true);
    expect((await nodes.call(call)).state).toBe("canceled");
  });
});

describe("keys and numbers", () => {
  test("a key opened on two nodes at once gives one call, created once", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    for (let round = 0; round < 10; round++) {
      const run = await newRun(one.exchange);
      const elsewhere = await knownRun(two.exchange, run.record.id);
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          index % 2 === 0
            ? one.exchange.open(request(run, { key: "k" }))
            : two.exchange.open(request(elsewhere, { key: "k" })),
        ),
      );
      expect(new Set(outcomes.map((outcome) => callOf(outcome).seq)).size).toBe(1);
      expect(outcomes.filter(({ type }) => type === "created")).toHaveLength(1);
    }
  });

  test("a key opened twice at once with other content is one call and one KEY_REUSED", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const outcomes = await Promise.all(
      ["1", "2"].map((inputJson) =>
        exchange.open(request(run, { key: "k", inputJson })).then(({ type }) => type, reasonOf),
      ),
    );
    expect(outcomes).toEqual(["created", "KEY_REUSED"]);
  });

  test("a credit that an open took is put back, once, when it made no call", async () => {
    const { exchange } = await nodes.start();
    const worker = await attach(exchange, { tools: ["repeat"], slots: 3 });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const call = await open(exchange, run, { tool: "repeat", key: "k" });
    await worker.offerOf(call);
    await exchange.open(request(run, { tool: "repeat", key: "k" }));
    expect(worker.own.credit).toBe(2);
    const other = exchange.open(request(run, { tool: "repeat", key: "k", inputJson: "2" }));
    await expect(other.catch(reasonOf)).resolves.toBe("KEY_REUSED");
    expect(worker.own.credit).toBe(2);
    await endRun(exchange, SCOPE, run.record.id);
    await expect(exchange.open(request(run, { tool: "repeat" })).catch(reasonOf)).resolves.toBe("RUN_ENDED");
    expect(worker.own.credit).toBe(2);
  });

  test("two nodes that number calls of one run at once give each call a number of its own", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const elsewhere = await knownRun(two.exchange, run.record.id);
    const calls = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        index % 2 === 0 ? open(one.exchange, run) : open(two.exchange, elsewhere),
      ),
    );
    expect(new Set(calls.map(({ seq }) => seq)).size).toBe(200);
  });

  test("calls that are opened together keep their order where another node has numbered calls meanwhile", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const other = await newRun(one.exchange);
    const openAll = async (exchange: Exchange, known: KnownRun, count: number): Promise<number[]> => {
      const calls = await Promise.all(Array.from({ length: count }, () => open(exchange, known)));
      return calls.map(({ seq }) => seq);
    };
    one.exchange.hints.othersAlive = true;
    await openAll(one.exchange, run, 5);
    await openAll(two.exchange, await knownRun(two.exchange, run.record.id), 3);
    const [late, untouched] = await Promise.all([
      openAll(one.exchange, run, 10),
      openAll(one.exchange, other, 2),
    ]);
    expect(late).toEqual([...late].sort((a, b) => a - b));
    expect(new Set(late).size).toBe(10);
    expect(untouched).toEqual([1, 2]);
  });
});

describe("batches", () => {
  test("one bad item among many harms no other (I11)", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        exchange
          .open(request(run, { inputJson: index === 20 || index === 41 ? "{" : String(index) }))
          .then(({ type }) => type, reasonOf),
      ),
    );
    outcomes.forEach((outcome, index) => {
      expect(outcome).toBe(index === 20 || index === 41 ? "INVALID_FIELD" : "created");
    });
    const { rows } = await nodes.database
      .pool()
      .query("SELECT FROM calls WHERE run_id = $1", [run.record.id]);
    expect(rows).toHaveLength(58);
  });

  test("one bad answer among many harms no other (I11, B06)", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange);
    const calls = await Promise.all(Array.from({ length: 30 }, () => open(exchange, run)));
    const outcomes = await Promise.all(
      calls.map((call, index) =>
        exchange
          .apply(
            call,
            { type: "settle", attempt: null, answer: result(index === 7 ? '"\u0000' : "1") },
            SCOPE,
          )
          .then(verdictOf, reasonOf),
      ),
    );
    outcomes.forEach((outcome, index) => expect(outcome).toBe(index === 7 ? "INVALID_FIELD" : "done"));
    expect((await nodes.call(calls[7]!)).state).toBe("queued");
  });
});
