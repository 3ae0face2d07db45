import { describe, expect, test } from "vitest";
import { CallLock } from "../../server/src/exchange/call-lock.js";

describe("CallLock", () => {
  test("holders of one call come one after the other, in the order of asking; others are not held up", async () => {
    const lock = new CallLock();
    const order: string[] = [];
    const hold = async (key: string, name: string): Promise<void> => {
      await lock.acquire(key);
      order.push(name);
    };
    const a1 = hold("a", "a1");
    const others = [hold("a", "a2"), hold("a", "a3")];
    await a1;
    await hold("b", "b1");
    expect([order, lock.isHeld("a"), lock.isHeld("b")]).toEqual([["a1", "b1"], true, true]);
    lock.release("a");
    await others[0];
    expect(order).toEqual(["a1", "b1", "a2"]);
    lock.release("a");
    await others[1];
    expect(order).toEqual(["a1", "b1", "a2", "a3"]);
    lock.release("a");
    lock.release("b");
    expect([lock.isHeld("a"), lock.isHeld("b")]).toEqual([false, false]);
  });

  test("a call that is free is taken at once, and again after its release", () => {
    const lock = new CallLock();
    expect(lock.acquire("a")).toBeUndefined();
    expect(lock.acquire("a")).toBeInstanceOf(Promise);
    lock.release("a");
    expect(lock.isHeld("a")).toBe(true);
    lock.release("a");
    expect(lock.acquire("a")).toBeUndefined();
  });
});
