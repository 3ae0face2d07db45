import { expect, test } from "vitest";
import { Backoff } from "../../client/src/reconnect.js";

test("tries are at most 2 s apart in the first 10 s and at most 8 s later, for ever (S17)", () => {
  let now = 0;
  const backoff = new Backoff(
    () => now,
    () => 1,
  );
  const delays: [at: number, delay: number][] = [];
  for (let count = 0; count < 1000; count++) {
    const delay = backoff.next();
    delays.push([now, delay]);
    now += delay;
  }
  expect(delays[0]).toEqual([0, 100]);
  for (const [at, delay] of delays) expect(delay).toBeLessThanOrEqual(at < 10_000 ? 2_000 : 8_000);
  expect(delays.at(-1)?.[1]).toBe(8_000);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

test("the delays of many clients are spread over half of their length", () => {
  const delays = [0, 0.5, 1].map((random) =>
    new Backoff(
      () => 0,
      () => random,
    ).next(),
  );
  expect(delays).toEqual([50, 75, 100]);
});

test("the first tries after a node's death are spread over an interval, at most 4 s, not bunched", () => {
  const firsts = (spreadMs: number): number[] =>
    [0, 0.5, 1].map((random) =>
      new Backoff(
        () => 0,
        () => random,
      ).first(spreadMs),
    );
  expect(firsts(200)).toEqual([0, 100, 200]);
  expect(firsts(20_000)).toEqual([0, 2_000, 4_000]);
});
