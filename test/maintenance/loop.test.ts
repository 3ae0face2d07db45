import { afterEach, describe, expect, test } from "vitest";
import { Loop } from "../../server/src/maintenance/loop.js";
import { throughout, until } from "../support/until.js";

const loops: Loop[] = [];
afterEach(async () => {
  await Promise.all(loops.splice(0).map((loop) => loop.stop()));
});

function loopOf(options: ConstructorParameters<typeof Loop>[0]): Loop {
  const loop = new Loop(options);
  loops.push(loop);
  return loop;
}

const never = (error: unknown): never => expect.fail(String(error));

describe("Loop", () => {
  test("rounds come again and again, never two at once", async () => {
    let rounds = 0;
    let running = 0;
    const loop = loopOf({
      everyMs: 5,
      onError: never,
      work: async () => {
        expect(++running).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        rounds++;
        return undefined;
      },
    });
    loop.start();
    await until("ten rounds", () => rounds >= 10);
  });

  test("an error goes to onError, and the next round comes", async () => {
    const errors: unknown[] = [];
    let rounds = 0;
    const loop = loopOf({
      everyMs: 5,
      onError: (error) => void errors.push(error),
      work: () => (++rounds % 2 === 0 ? Promise.resolve(undefined) : Promise.reject(new RangeError("no"))),
    });
    loop.start();
    await until("four rounds", () => rounds >= 4);
    expect(errors.length).toBeGreaterThanOrEqual(2);
  });

  test("a round that is asked for comes at once, after the one that runs, and tells its pause", async () => {
    let rounds = 0;
    let finish = (): void => undefined;
    const loop = loopOf({
      everyMs: 60_000,
      onError: never,
      work: async () => {
        if (++rounds === 1) await new Promise<void>((resolve) => (finish = resolve));
        return rounds;
      },
    });
    const first = loop.runNow();
    const others = Promise.all([loop.runNow(), loop.runNow()]);
    finish();
    expect([await first, ...(await others)]).toEqual([1, 2, 3]);
    await loop.stop();
    expect(await loop.runNow()).toBeUndefined();
    expect(rounds).toBe(3);
  });

  test("a round is brought forward, even while one runs", async () => {
    let rounds = 0;
    let finish = (): void => undefined;
    const loop = loopOf({
      everyMs: 60_000,
      onError: never,
      work: async () => {
        rounds++;
        if (rounds === 1) await new Promise<void>((resolve) => (finish = resolve));
        return undefined;
      },
    });
    loop.start();
    loop.wakeIn(1);
    await until("the first round", () => rounds === 1);
    loop.wakeIn(1);
    finish();
    await until("the second round", () => rounds === 2);
    await throughout(100, () => expect(rounds).toBe(2));
  });

  test("stop waits for the round that runs, and none follows", async () => {
    let rounds = 0;
    let ended = 0;
    let finish = (): void => undefined;
    const loop = loopOf({
      everyMs: 1,
      onError: never,
      work: async () => {
        rounds++;
        await new Promise<void>((resolve) => (finish = resolve));
        ended++;
        return 0;
      },
    });
    loop.start();
    await until("a round", () => rounds === 1);
    const stopped = loop.stop().then(() => ended);
    finish();
    expect(await stopped).toBe(1);
    loop.wakeIn(0);
    await throughout(50, () => expect(rounds).toBe(1));
  });

  test("a pause longer than the usual one is cut to it, and one of none lets others run", async () => {
    let rounds = 0;
    const loop = loopOf({ everyMs: 20, onError: never, work: async () => (rounds++ < 3 ? 0 : 2 ** 33) });
    loop.start();
    await until("eight rounds", () => rounds >= 8);
  });
});
