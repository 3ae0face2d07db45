import { expect, test } from "vitest";
import { retryPolicy } from "../../client/src/retry-policy.js";

test.each([
  [16.1, "16s100ms"],
  [4.35, "4s350ms"],
  [0.0001, "1ms"],
  [1.0005, "1s1ms"],
  [315_360_000, "3650d"],
])("%d seconds are %s: what binary makes of a fraction does not count", (seconds, duration) => {
  expect(retryPolicy({ attempt_timeout_secs: seconds, total_timeout_secs: seconds })).toEqual({
    attemptTimeout: duration,
    totalTimeout: duration,
  });
});

test.each([0, -1, NaN, Infinity, 315_360_001, "60", null])(
  "%j seconds are refused, with the field",
  (seconds) => {
    expect(() => retryPolicy({ total_timeout_secs: seconds as number }, "agent.tools[0].retry")).toThrow(
      expect.objectContaining({ metadata: { field: "agent.tools[0].retry.total_timeout_secs" } }),
    );
  },
);
