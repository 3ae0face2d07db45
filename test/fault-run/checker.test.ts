import { describe, expect, test } from "vitest";
import { check } from "./checker.mjs";
import { answered, failure, RUN, SampleHistory } from "./sample-history.js";

/** What the checker says of a history: each rule once. */
function rulesBroken(history: SampleHistory): string[] {
  return [...new Set(check(history.close()).map(({ rule }) => rule))];
}

/** Makes a history and says which rules it breaks. */
function broken(make: (history: SampleHistory) => void): string[] {
  const history = new SampleHistory();
  make(history);
  return rulesBroken(history);
}

const ONCE = { bounds: { mode: "at_most_once", maxAttempts: 1 } } as const;

describe("a history in which nothing is wrong", () => {
  test("is not accused of anything", () => {
    const ok = broken((history) => {
      answered(history, ONCE);
      // Lost with its worker, then answered by another.
      history.open();
      history.start(2, 1, "worker-2#1");
      history.start(2, 2);
      history.finish(2, history.result(2, "attempt 2"), 2);
      history.end(2, { attempt: 2, ...history.result(2, "attempt 2") });
      // Deferred, and answered by token.
      history.open();
      history.start(3);
      history.add("worker-1#1", { type: "deferring", id: `${RUN}/3`, attempt: 1 });
      history.add("worker-1#1", { type: "deferred", id: `${RUN}/3`, attempt: 1 });
      history.finish(3, null);
      const said = history.result(3, "a person");
      history.add("answerer-1#1", { type: "answering", id: `${RUN}/3`, by: "token", said });
      history.end(3, said);
      history.add("answerer-1#1", {
        type: "answered",
        id: `${RUN}/3`,
        by: "token",
        said,
        state: "succeeded",
      });
      // Of a turn, canceled before anybody had claimed it.
      history.open({ turn: 1 });
      const { t: since } = history.add("harness-1#1", { type: "turn-waiting", run: RUN, turn: 1 });
      history.add("harness-1#1", { type: "canceling", id: `${RUN}/4` });
      const canceled = { state: "canceled", attempt: 0, failure: failure("canceled", false) };
      const { id, state, attempt, resultJson, failure: seen, endedAt } = history.end(4, canceled);
      history.add("harness-1#1", { type: "canceled", id, state });
      const outcomes = [{ id, state, attempt, resultJson, failure: seen, endedAt }];
      history.add("harness-1#1", { type: "turn-settled", run: RUN, turn: 1, since, outcomes });
      // Lost for good: nobody knows how far it came.
      history.open(ONCE);
      history.start(5);
      history.end(5, { state: "failed", failure: failure("worker_lost", true) });
    });
    expect(ok).toEqual([]);
  });

  test("may have opens that were never acknowledged, whether they were stored or not", () => {
    const ok = broken((history) => {
      answered(history);
      history.remove("opened", 1);
      history.open();
      history.remove("opened", 2);
    });
    expect(ok).toEqual([]);
  });
});

describe("what was acknowledged", () => {
  test.each([
    ["a call", (history: SampleHistory) => history.remove("row", 1), "acknowledged is kept"],
    [
      "a call's input",
      (history: SampleHistory) => {
        history.of("row", 1).inputJson = '{"n":"another"}';
      },
      "stored as opened",
    ],
    [
      "a call's mode",
      (history: SampleHistory) => {
        history.of("row", 1).mode = "at_most_once";
      },
      "stored as opened",
    ],
    [
      "a run",
      (history: SampleHistory) => {
        history.add("harness-1#1", { type: "run-created", run: "another", key: "another" });
      },
      "acknowledged is kept",
    ],
    [
      "a run's end",
      (history: SampleHistory) => {
        history.add("harness-1#1", { type: "run-created", run: "another", key: "another" });
        history.add("harness-1#1", { type: "run-ended", run: "another" });
        history.add("driver#1", { type: "run-row", run: "another", key: "another", state: "active" });
      },
      "acknowledged is kept",
    ],
  ])("%s, and is lost, is found", (_what, lose, rule) => {
    expect(
      broken((history) => {
        answered(history);
        lose(history);
      }),
    ).toContain(rule);
  });

  test("as an answer, by token or id, and is not how the call ended, is found", () => {
    const rules = broken((history) => {
      answered(history);
      const said = history.result(1, "a person");
      history.add("answerer-1#1", { type: "answering", id: `${RUN}/1`, by: "id", said });
      history.add("answerer-1#1", { type: "answered", id: `${RUN}/1`, by: "id", said, state: "succeeded" });
    });
    expect(rules).toEqual(["acknowledged is kept"]);
  });

  test("as a failure, and is not how the call ended, is found", () => {
    const rules = broken((history) => {
      answered(history);
      const said = { failure: { kind: "tool", message: "no", retryable: false } };
      history.add("answerer-1#1", { type: "answering", id: `${RUN}/1`, by: "token", said });
      history.add("answerer-1#1", { type: "answered", id: `${RUN}/1`, by: "token", said, state: "failed" });
    });
    expect(rules).toEqual(["acknowledged is kept"]);
  });

  test("as a deferral, whose token is refused afterwards, is found", () => {
    const rules = broken((history) => {
      answered(history);
      const { id } = history.add("worker-1#1", { type: "deferred", id: `${RUN}/1`, attempt: 1 });
      const why = { reason: "TOKEN_INVALID", message: "no deferred call is waiting for this token" };
      history.add("answerer-1#1", { type: "refused", what: "answer", subject: id, attempt: 1, ...why });
    });
    expect(rules).toEqual(["acknowledged is kept"]);
  });

  test("under one key as two calls is found", () => {
    const rules = broken((history) => {
      answered(history);
      answered(history);
      history.add("harness-1#1", { type: "opened", run: RUN, key: "key-1", id: `${RUN}/2` });
    });
    expect(rules).toEqual(["one key, one call"]);
  });
});

describe("what nobody has done", () => {
  test("as the opening of a call is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.remove("opening", 1);
    });
    expect(rules).toContain("nothing comes from nowhere");
  });

  test("as the opening of a call whose handler was started is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.start(1).id = `${RUN}/99`;
    });
    expect(rules).toContain("nothing comes from nowhere");
  });

  test("as a result, a failure, a cancellation or a limit is found", () => {
    expect(
      broken((history) => {
        answered(history);
        history.remove("end", 1);
      }),
    ).toEqual(["results are what was said"]);
    const failed = (kind: string): string[] =>
      broken((history) => {
        history.open();
        history.end(1, { state: "failed", failure: failure(kind, false), spent: 3, attempt: 3 });
      });
    expect(failed("tool")).toEqual(["results are what was said"]);
    expect(failed("total_timeout")).toEqual(["ends have a cause"]);
    expect(failed("attempt_timeout")).toEqual(["ends have a cause"]);
    expect(failed("defer_timeout")).toEqual(["ends have a cause"]);
    expect(failed("invalid_answer")).toEqual(["ends have a cause"]);
  });

  test("as a cancellation is found", () => {
    const history = new SampleHistory();
    history.open();
    history.end(1, { state: "canceled", failure: failure("canceled", false), attempt: 0 });
    history.add("driver#1", { type: "run-row", run: RUN, key: "its key", state: "active" });
    expect(check(history.events).map(({ rule }) => rule)).toEqual(["ends have a cause"]);
  });

  test("as the end of a run in which a call was refused is found", () => {
    const history = new SampleHistory();
    const why = { reason: "RUN_ENDED", message: "the run has ended" };
    history.add("harness-1#1", { type: "refused", what: "open", subject: `${RUN} key`, ...why });
    expect(rulesBroken(history)).toEqual(["only what may be is refused"]);
  });
});

describe("an end", () => {
  test("that never came is found", () => {
    const rules = broken((history) => {
      history.open();
      history.end(1, { state: "queued", attempt: 0, resultJson: null, endedAt: null });
    });
    expect(rules).toContain("every call ends");
  });

  test.each([
    ["state", { state: "failed" }],
    ["result", { resultJson: '{"sum":"another"}' }],
    ["attempt", { attempt: 2 }],
    ["time", { endedAt: 1 }],
    ["failure", { failure: failure("tool", false) }],
  ])("that was seen with another %s than it has is found", (_what, other) => {
    const rules = broken((history) => {
      answered(history);
      Object.assign(history.of("outcome", 1), other);
    });
    expect(rules).toEqual(["what has ended never changes"]);
  });

  test("that a cancellation was answered with, and is another now, is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.add("harness-1#1", { type: "canceled", id: `${RUN}/1`, state: "canceled" });
    });
    expect(rules).toEqual(["what has ended never changes"]);
  });

  test("of which its harness never heard is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.remove("outcome", 1);
    });
    expect(rules).toEqual(["whoever waits is told"]);
  });

  test("by the answer of an attempt that was replaced is found", () => {
    const rules = broken((history) => {
      history.open();
      history.start(1, 1);
      history.start(1, 2);
      history.finish(1, history.result(1), 1);
      history.end(1, { attempt: 2 });
    });
    expect(rules).toEqual(["results are what was said"]);
  });

  test("with the result of another call is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.open();
      history.start(2);
      history.finish(2, history.result(1));
      history.end(2, history.result(1));
    });
    expect(rules).toEqual(["results are what was said"]);
  });

  test("with attempts left after a failure to be retried is found", () => {
    const rules = broken((history) => {
      history.open();
      history.start(1);
      history.end(1, { state: "failed", failure: failure("worker_lost", true) });
    });
    expect(rules).toEqual(["attempts within policy"]);
  });

  test("before its limit has passed is found", () => {
    const rules = broken((history) => {
      history.open({ bounds: { totalMs: 800 } });
      history.end(1, { state: "failed", failure: failure("total_timeout", false), attempt: 0, spent: 0 });
    });
    expect(rules).toEqual(["no limit passes early"]);
  });
});

describe("an unknown outcome", () => {
  const ended = (kind: string, unknown: boolean, spent: number, started: boolean): string[] =>
    broken((history) => {
      history.open({ bounds: { ...ONCE.bounds, totalMs: 0 } });
      if (started) history.start(1);
      history.end(1, { state: "failed", failure: failure(kind, unknown), spent });
    });

  test("where no handler can have started is found", () => {
    expect(ended("total_timeout", true, 0, false)).toEqual(["unknown only where it is"]);
  });

  test("that is said to be known although a handler has started is found", () => {
    expect(ended("total_timeout", false, 1, true)).toEqual(["unknown only where it is"]);
  });

  test("of a failure that somebody has said is found", () => {
    expect(ended("tool", true, 1, true)).toContain("unknown only where it is");
  });
});

describe("a handler", () => {
  test("of an at_most_once call that was started twice is found", () => {
    const rules = broken((history) => {
      history.open(ONCE);
      history.start(1, 1, "worker-2#1");
      history.start(1, 2);
      history.finish(1, history.result(1), 2);
      history.end(1, { attempt: 2, spent: 1 });
    });
    expect(rules).toContain("at most once");
  });

  test("that was started twice for one attempt is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.start(1, 1, "worker-2#1");
    });
    expect(rules).toEqual(["one start an attempt"]);
  });

  test("that was started more often than the policy allows is found", () => {
    const rules = broken((history) => {
      history.open();
      for (const attempt of [1, 2, 3, 4]) history.start(1, attempt, `worker-${attempt + 1}#1`);
      history.finish(1, history.result(1), 4);
      history.end(1, { attempt: 4, spent: 3 });
    });
    expect(rules).toContain("attempts within policy");
  });

  test("that was started and not counted is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.of("row", 1).spent = 0;
    });
    expect(rules).toEqual(["attempts are counted"]);
  });

  test("of an attempt that was never made is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.of("start", 1).attempt = 2;
    });
    expect(rules).toContain("attempts are counted");
  });

  test("with another idempotency key is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.of("start", 1).call = `${RUN}/2`;
    });
    expect(rules).toEqual(["one idempotency key"]);
  });

  test("that got another input is found", () => {
    const rules = broken((history) => {
      answered(history);
      history.of("start", 1).inputJson = "{}";
    });
    expect(rules).toEqual(["handlers get what was opened"]);
  });

  test("of a call that was deferred, and is started again, is found", () => {
    const rules = broken((history) => {
      history.open();
      history.start(1);
      history.add("worker-1#1", { type: "deferred", id: `${RUN}/1`, attempt: 1 });
      history.finish(1, null);
      history.start(1, 2);
      history.finish(1, history.result(1), 2);
      history.end(1, { attempt: 2 });
    });
    expect(rules).toEqual(["a deferral is kept"]);
  });

  test("of a deferred call that is said to be lost is found", () => {
    const rules = broken((history) => {
      history.open(ONCE);
      history.start(1);
      history.add("worker-1#1", { type: "deferred", id: `${RUN}/1`, attempt: 1 });
      history.end(1, { state: "failed", failure: failure("worker_lost", true) });
    });
    expect(rules).toEqual(["a deferral is kept"]);
  });

  test("above a worker's concurrency is found", () => {
    const rules = broken((history) => {
      for (const seq of [1, 2, 3]) {
        history.open();
        history.start(seq);
      }
      for (const seq of [1, 2, 3]) {
        history.finish(seq, history.result(seq));
        history.end(seq);
      }
    });
    expect(rules).toEqual(["within credit"]);
  });
});

describe("a turn", () => {
  const settled = (
    change: (outcomes: { id: string }[], rows: SampleHistory) => { id: string }[],
    order: "before" | "after" = "after",
  ): string[] =>
    broken((history) => {
      answered(history, { turn: 1 });
      answered(history, { turn: 1 });
      const { t: since } = history.add("harness-1#1", { type: "turn-waiting", run: RUN, turn: 1 });
      const outcomes = [1, 2].map((seq) => {
        const { id, state, attempt, resultJson, failure: seen, endedAt } = history.of("row", seq);
        return { id, state, attempt, resultJson, failure: seen, endedAt };
      });
      if (order === "before") {
        const late = history.nowMs + 1_000;
        for (const type of ["row", "outcome"] as const) history.of(type, 2).endedAt = late;
        for (const outcome of outcomes.slice(1)) outcome.endedAt = late;
      }
      const told = change(outcomes, history) as typeof outcomes;
      history.add("harness-1#1", { type: "turn-settled", run: RUN, turn: 1, since, outcomes: told });
    });

  test("that is settled in order breaks no rule", () => {
    expect(settled((outcomes) => outcomes)).toEqual([]);
  });

  test("that was settled before one of its calls had ended is found", () => {
    expect(settled((outcomes) => outcomes, "before")).toEqual(["turns settle when all is over"]);
  });

  test("that was settled without one of its calls is found", () => {
    expect(settled((outcomes) => outcomes.slice(0, 1))).toEqual(["turns settle when all is over"]);
  });

  test("whose outcomes came twice or out of order is found", () => {
    expect(settled((outcomes) => [...outcomes, ...outcomes.slice(1)])).toEqual(["turns settle in order"]);
    expect(settled((outcomes) => [...outcomes].reverse())).toEqual(["turns settle in order"]);
  });

  test("that was settled with the call of another turn is found", () => {
    const rules = settled((outcomes, history) => {
      history.of("row", 2).turn = 2;
      history.of("opening", 2).turn = 2;
      return outcomes;
    });
    expect(rules).toEqual(["turns settle when all is over"]);
  });
});

describe("an error", () => {
  test.each([
    ["open", "INTERNAL"],
    ["outcome", "NOT_FOUND"],
    ["cancel", "UNAVAILABLE"],
    ["settled", "NOT_FOUND"],
    ["answer", "INTERNAL"],
    ["defer", "INTERNAL"],
    ["create run", "TIMEOUT"],
  ])("of an %s that the server has no right to (%s) is found", (what, reason) => {
    const rules = broken((history) => {
      history.add("harness-1#1", { type: "refused", what, subject: "it", reason, message: "no" });
    });
    expect(rules).toEqual(["only what may be is refused"]);
  });

  test("that ends a program is found", () => {
    const rules = broken((history) => {
      history.add("driver#1", { type: "crashed", name: "node-1", how: "status 1" });
    });
    expect(rules).toEqual(["programs do not end by themselves"]);
  });
});
