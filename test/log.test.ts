import { Writable } from "node:stream";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { errorLogger } from "../server/src/log.js";

function logger(): {
  readonly report: (error: unknown) => void;
  readonly lines: () => { msg: string; leftOut?: number }[];
} {
  let text = "";
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString();
      done();
    },
  });
  return {
    report: errorLogger(pino(sink)),
    lines: () =>
      text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
  };
}

test("of one error a line a second at most, of all of them two, and the rest is counted", () => {
  vi.useFakeTimers();
  try {
    const { report, lines } = logger();
    for (let time = 0; time < 3; time++) {
      for (let each = 0; each < 100; each++) report(new Error(`error ${each % 10}`));
      vi.advanceTimersByTime(1_000);
    }
    expect(lines().length).toBe(6);
    expect(lines()[2]).toMatchObject({ msg: "error 0", leftOut: 9 });
  } finally {
    vi.useRealTimers();
  }
});
