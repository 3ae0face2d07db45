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
