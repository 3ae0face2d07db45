import { describe, expect, test } from "vitest";
import { Batcher } from "../../server/src/exchange/batcher.js";

/** An error as the database's driver throws it. */
const failed = (code: string): Error => Object.assign(new Error(code), { code });

interface Turn {
  readonly promise: Promise<void>;
  readonly go: () => void;
}

function gate(): Turn {
  let go = (): void => undefined;
  const promise = new Promise<void>((resolve) => (go = resolve));
  return { promise, go };
}

describe("Batcher", () => {
  test("what is pushed in one turn goes together, and each item gets its own result", async () => {
    const batches: number[][] = [];
    const batcher = new Batcher<number, string>({
      write: async (items) => {
        batches.push([...items]);
        return items.map((item) => `r${item}`);
      },
      sizeOf: () => 1,
    });
    expect(await Promise.all([1, 2, 3].map((item) => batcher.push(item)))).toEqual(["r1", "r2", "r3"]);
    expect(batches).toEqual([[1, 2, 3]]);
  });

  test("while as many batches are written as may be, the next gathers", async () => {
    const batches: number[][] = [];
    const gates: Turn[] = [];
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        const turn = gate();
        gates.push(turn);
        await turn.promise;
        return items;
      },
      sizeOf: () => 1,
      maxInFlight: 1,
    });
    const first = batcher.push(0);
    await expect.poll(() => batches.length, { interval: 1 }).toBe(1);
    const others = [1, 2, 3].map((item) => batcher.push(item));
    expect(batcher.waiting).toBe(3);
    gates[0]!.go();
    await first;
    await expect.poll(() => batches.length, { interval: 1 }).toBe(2);
    gates[1]!.go();
    await Promise.all(others);
    expect(batches).toEqual([[0], [1, 2, 3]]);
  });

  test("while a crowd waits, one batch is written at a time; the last of them go together again", async () => {
    const written: number[] = [];
    const gates: Turn[] = [];
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        written.push(...items);
        const turn = gate();
        gates.push(turn);
        await turn.promise;
        return items;
      },
      sizeOf: () => 1,
      maxItems: 1,
      maxInFlight: 3,
      crowd: { above: 2, maxItems: 1 },
    });
    const all = [1, 2, 3, 4, 5].map((item) => batcher.push(item));
    for (const [index, expected] of [[1], [1, 2], [1, 2, 3, 4, 5]].entries()) {
      await expect.poll(() => written, { interval: 1 }).toEqual(expected);
      await new Promise((resolve) => setImmediate(resolve));
      expect(written).toEqual(expected);
      gates[index]!.go();
    }
    for (const { go } of gates) go();
    await Promise.all(all);
  });

  test("a crowd's batches have a size of their own", async () => {
    const batches: number[][] = [];
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: () => 1,
      maxItems: 1,
      maxInFlight: 1,
      crowd: { above: 2, maxItems: 3 },
    });
    await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((item) => batcher.push(item)));
    expect(batches).toEqual([[1, 2, 3], [4, 5, 6], [7], [8]]);
  });

  test("what of a crowd is early stays, and all behind it in its lane; it is written when it is not early any more", async () => {
    const batches: number[][] = [];
    let early = 3;
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: () => 1,
      maxItems: 4,
      crowd: { above: 2, maxItems: 4, isEarly: (item) => item >= early },
    });
    const all = [1, 2, 3, 4, 5, 6].map((item) => batcher.push(item));
    await all[1];
    expect(batches).toEqual([[1, 2]]);
    early = 5;
    // The last two are no crowd.
    await Promise.all(all);
    expect(batches).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
  });

  test("what of a crowd is early holds up no other's lane", async () => {
    const batches: number[][] = [];
    let early = 0;
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: () => 1,
      laneOf: (item) => (item > 0 ? "positive" : "negative"),
      maxItems: 9,
      crowd: { above: 2, maxItems: 9, isEarly: (item) => item > early },
    });
    const all = [1, 2, 3, -1, -2, -3].map((item) => batcher.push(item));
    await all[5];
    expect(batches).toEqual([[-1, -2, -3]]);
    early = 3;
    await Promise.all(all);
    expect(batches[1]).toEqual([1, 2, 3]);
  });

  test("a batch is cut at its number of items and at its bytes, unless one item is larger", async () => {
    const batches: number[][] = [];
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: (item) => item,
      maxItems: 3,
      maxBytes: 10,
    });
    await Promise.all([1, 1, 1, 1, 5, 5, 50, 1].map((item) => batcher.push(item)));
    expect(batches).toEqual([[1, 1, 1], [1, 5], [5], [50], [1]]);
  });

  test("an item above 256 KiB goes alone, and what stands before and after it goes together", async () => {
    const batches: number[][] = [];
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: (item) => item,
    });
    const large = 256 * 1024 + 1;
    await Promise.all([1, 2, large, 3, large - 1, large, large].map((item) => batcher.push(item)));
    expect(batches).toEqual([[1, 2], [large], [3, large - 1], [large], [large]]);
  });

  test("one's single item does not wait for all that another has pushed, and each one's own order stays", async () => {
    const batches: string[][] = [];
    const gates: Turn[] = [];
    const batcher = new Batcher<string, string>({
      write: async (items) => {
        batches.push([...items]);
        const turn = gate();
        gates.push(turn);
        await turn.promise;
        return items;
      },
      sizeOf: () => 1,
      laneOf: (item) => item.charAt(0),
      maxItems: 4,
      maxInFlight: 1,
    });
    const names = (letter: string, from: number, to: number): string[] =>
      Array.from({ length: to - from + 1 }, (_, index) => `${letter}${from + index}`);
    const pushed = [...names("a", 1, 10), "b1"].map((item) => batcher.push(item));
    const next = async (): Promise<void> => {
      gates.at(-1)!.go();
      const seen = batches.length;
      await expect.poll(() => batches.length, { interval: 1 }).toBe(seen + 1);
    };
    await expect.poll(() => batches.length, { interval: 1 }).toBe(1);
    expect(batcher.waiting).toBe(7);
    pushed.push(...["c1", "c2", "c3", "b2"].map((item) => batcher.push(item)));
    await next();
    await next();
    pushed.push(batcher.push("a11"));
    await next();
    gates.at(-1)!.go();
    expect(await Promise.all(pushed)).toHaveLength(16);
    expect(batches).toEqual([
      ["a1", "b1", "a2", "a3"],
      ["a4", "c1", "b2", "a5"],
      ["c2", "a6", "c3", "a7"],
      ["a8", "a9", "a10", "a11"],
    ]);
    expect(batcher.waiting).toBe(0);
  });

  test("what waits in turns counts into what may wait, and when it has gone all goes in the order of coming", async () => {
    const batches: string[][] = [];
    const batcher = new Batcher<string, string>({
      write: async (items) => {
        batches.push([...items]);
        return items;
      },
      sizeOf: () => 1,
      laneOf: (item) => item.charAt(0),
      maxItems: 3,
      maxWaiting: 5,
    });
    const outcomes = await Promise.allSettled(
      ["a1", "a2", "a3", "b1", "a4", "b2"].map((item) => batcher.push(item)),
    );
    expect(outcomes.map(({ status }) => status === "fulfilled")).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
    ]);
    await Promise.all(["a5", "b3", "a6"].map((item) => batcher.push(item)));
    expect(batches).toEqual([
      ["a1", "b1", "a2"],
      ["a3", "a4"],
      ["a5", "b3", "a6"],
    ]);
  });

  test("items that are at fault are refused alone, with what was wrong (I11)", async () => {
    let writes = 0;
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        writes++;
        if (items.includes(13) || items.includes(57)) throw failed("22P02");
        return items;
      },
      sizeOf: () => 1,
    });
    const outcomes = await Promise.allSettled(Array.from({ length: 100 }, (_, index) => batcher.push(index)));
    expect(outcomes.flatMap(({ status }, index) => (status === "rejected" ? [index] : []))).toEqual([13, 57]);
    expect(outcomes[13]).toMatchObject({ reason: { reason: "INVALID_FIELD" } });
    expect(writes).toBeLessThan(30);
  });

  test.each([
    ["a deadlock", "40P01", false],
    ["a lost connection", "08006", true],
  ])("after %s the same batch is sent again, unchanged", async (_what, code, mayBeWritten) => {
    const sent: { items: readonly number[]; again: boolean }[] = [];
    const batcher = new Batcher<number, number>({
      write: async (items, again) => {
        sent.push({ items, again });
        if (sent.length < 3) throw failed(code);
        return items;
      },
      sizeOf: () => 1,
    });
    await Promise.all([batcher.push(1), batcher.push(2)]);
    expect(sent.map(({ items }) => items)).toEqual([
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
    expect(sent.map(({ again }) => again)).toEqual([false, mayBeWritten, mayBeWritten]);
  });

  test("an error of the statement refuses its batch with INTERNAL, and the next batch is written", async () => {
    let broken = true;
    const batcher = new Batcher<number, number>({
      write: async (items) => {
        if (broken) throw failed("42703");
        return items;
      },
      sizeOf: () => 1,
    });
    await expect(batcher.push(1)).rejects.toMatchObject({ reason: "INTERNAL" });
    broken = false;
    expect(await batcher.push(2)).toBe(2);
  });
});
