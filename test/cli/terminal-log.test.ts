import { beforeEach, expect, test } from "vitest";
import type { Sink } from "../../server/src/cli/output.js";
import { TerminalLog } from "../../server/src/cli/terminal-log.js";
import { createLog } from "../../server/src/log.js";

let written: string;

const terminal: Sink = {
  isTTY: true,
  columns: 80,
  write: (text: string | Uint8Array) => {
    written += String(text);
    return true;
  },
};

beforeEach(() => {
  written = "";
});

/** What was written, without its colours and with every time of day as TIME. */
const lines = (): string[] =>
  written
    .replace(/\u001b\[\d+m/g, "")
    .replace(/^\d\d:\d\d:\d\d/gm, "TIME")
    .split("\n")
    .filter(Boolean);

test("a person reads the log as text, with the facts that go with a line", () => {
  const log = createLog("info", new TerminalLog(terminal));
  log.info("making a PostgreSQL 18 cluster");
  log.info({ node: "n1", url: "http://127.0.0.1:7788" }, "serving");
  log.warn({ awayMs: 12 }, "the database is back");
  log.debug("not asked for");
  expect(lines()).toEqual([
    "TIME making a PostgreSQL 18 cluster",
    "TIME serving (node n1, url http://127.0.0.1:7788)",
    "TIME warning: the database is back (awayMs 12)",
  ]);
});

test("an error is shown with where it came from, and cannot act on the terminal", () => {
  const error = new Error("no \u001b]0;such\u0007 table");
  createLog("info", new TerminalLog(terminal)).error({ err: error, leftOut: 2 }, error.message);
  const [first, ...stack] = lines();
  expect(first).toBe("TIME error: no \\x1b]0;such\\x07 table (leftOut 2)");
  expect(stack.length).toBeGreaterThan(0);
  expect(stack.every((line) => line.startsWith("    at "))).toBe(true);
});
