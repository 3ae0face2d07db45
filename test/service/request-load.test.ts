import { CallService } from "@trunkline/proto/call";
import { describe, expect, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { RequestLoad } from "../../server/src/service/request-load.js";

const { getCall, waitCalls } = CallService.method;
const forEver = (): Promise<never> => new Promise(() => undefined);

describe("RequestLoad", () => {
  test("takes as many requests as the limit says, and again after one has ended", async () => {
    const load = new RequestLoad();
    let end = (): void => undefined;
    const first = load.count(getCall, () => new Promise<void>((resolve) => (end = resolve)));
    for (let count = 1; count < LIMITS.requestsInFlight; count++) void load.count(getCall, forEver);
    await expect(load.count(getCall, forEver)).rejects.toMatchObject({
      reason: "OVERLOADED",
      retryAfterMs: expect.any(Number),
    });
    end();
    await first;
    expect(await load.count(getCall, () => Promise.resolve("done"))).toBe("done");
  });

  test("counts waits by themselves: they leave room for requests", async () => {
    const load = new RequestLoad();
    for (let count = 0; count < LIMITS.waitsInFlight; count++) void load.count(waitCalls, forEver);
    await expect(load.count(waitCalls, forEver)).rejects.toMatchObject({ reason: "OVERLOADED" });
    expect(await load.count(getCall, () => Promise.resolve("done"))).toBe("done");
  });
});
