import { describe, expect, test } from "vitest";
import { RunEndings, waitAtMost } from "../../server/src/exchange/run-endings.js";

const gate = (): { promise: Promise<void>; open: () => void } => {
  let open = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
};

describe("the cancellations of ended runs", () => {
  test("are one for each run, however many ask, and begin anew once they are over", async () => {
    const endings = new RunEndings();
    const done = gate();
    let begun = 0;
    const work = (): Promise<void> => {
      begun++;
      return done.promise;
    };
    const both = Promise.all([endings.join("a", work), endings.join("a", work)]);
    expect(begun).toBe(1);
    done.open();
    await both;
    await endings.join("a", work);
    expect(begun).toBe(2);
  });

  test("one that fails is told to all who wait, and can be begun again", async () => {
    const endings = new RunEndings();
    const failing = (): Promise<void> => Promise.reject(new Error("no database"));
    const both = [endings.join("a", failing), endings.join("a", failing)];
    for (const one of both) await expect(one).rejects.toThrow("no database");
    await expect(endings.join("a", () => Promise.resolve())).resolves.toBeUndefined();
  });

  test("a stop waits for what is in hand, and asks for no more", async () => {
    const endings = new RunEndings();
    const done = gate();
    const seen: boolean[] = [];
    void endings.join("a", async (isStopped) => {
      await done.promise;
      seen.push(isStopped());
    });
    const stopped = endings.stop();
    done.open();
    await stopped;
    expect(seen).toEqual([true]);
  });
});

describe("waitAtMost", () => {
  test("is over after its time, and the work goes on", async () => {
    const done = gate();
    let finished = false;
    const work = done.promise.then(() => {
      finished = true;
    });
    await waitAtMost(1, work);
    expect(finished).toBe(false);
    done.open();
    await work;
    expect(finished).toBe(true);
  });

  test("tells what fails within it, and swallows what fails after", async () => {
    await expect(waitAtMost(10_000, Promise.reject(new Error("boom")))).rejects.toThrow("boom");
    let fail = (_: Error): void => undefined;
    await waitAtMost(
      1,
      new Promise((_, reject) => {
        fail = reject;
      }),
    );
    fail(new Error("late"));
  });
});
