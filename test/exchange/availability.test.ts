import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Availability } from "../../server/src/exchange/availability.js";

const INTERVAL_MS = 1_000;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function watched(): { readonly availability: Availability; readonly told: boolean[] } {
  const availability = new Availability(INTERVAL_MS);
  const told: boolean[] = [];
  availability.onChange((isDown) => told.push(isDown));
  return { availability, told };
}

describe("Availability", () => {
  test("a node is without database once renewals have failed for two intervals, and until the next one", () => {
    const { availability, told } = watched();
    vi.advanceTimersByTime(INTERVAL_MS);
    availability.renewed();
    vi.advanceTimersByTime(INTERVAL_MS);
    availability.failed();
    expect(availability.isDown).toBe(false);
    vi.advanceTimersByTime(INTERVAL_MS);
    availability.failed();
    availability.failed();
    expect(told).toEqual([true]);
    expect(() => availability.check()).toThrow("cannot reach its database");
    availability.renewed();
    expect(told).toEqual([true, false]);
    availability.check();
  });

  test("a node that stood still is not without database", () => {
    const { availability, told } = watched();
    vi.advanceTimersByTime(100 * INTERVAL_MS);
    availability.renewed();
    expect(told).toEqual([]);
  });

  test("counts from the return of the database how long it has been there", () => {
    const { availability } = watched();
    vi.advanceTimersByTime(500);
    expect(availability.steadyMs).toBe(500);
    availability.failed();
    expect(availability.steadyMs).toBe(0);
    vi.advanceTimersByTime(500);
    availability.renewed();
    vi.advanceTimersByTime(300);
    availability.renewed();
    expect(availability.steadyMs).toBe(300);
    vi.advanceTimersByTime(3 * INTERVAL_MS);
    availability.renewed();
    expect(availability.steadyMs).toBe(0);
  });

  test("ends work that it guards when the database goes, and gives what it came to otherwise", async () => {
    const { availability } = watched();
    expect(await availability.guard(Promise.resolve(1))).toBe(1);
    await expect(availability.guard(Promise.reject(new Error("its own")))).rejects.toThrow("its own");
    const waiting = availability.guard(new Promise(() => undefined));
    vi.advanceTimersByTime(2 * INTERVAL_MS);
    availability.failed();
    await expect(waiting).rejects.toMatchObject({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });
  });
});
