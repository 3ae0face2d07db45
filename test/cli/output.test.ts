import { beforeEach, expect, test } from "vitest";
import { JsonText, writeJson } from "../../server/src/cli/json-document.js";
import { Output, type Sink } from "../../server/src/cli/output.js";

let written: string;

beforeEach(() => {
  written = "";
});

const sink = (isTTY: boolean, columns = 40): Sink => ({
  isTTY,
  columns,
  write: (text: string | Uint8Array) => {
    written += String(text);
    return true;
  },
});

test("JSON text goes through a pipe as it was answered, and cannot act on a terminal", () => {
  const text = '{"a":"\u009b2J", "n": 9007199254740993}';
  new Output(false, sink(false)).jsonText(text);
  expect(written).toBe(`${text}\n`);
  written = "";
  new Output(false, sink(true)).jsonText(text);
  expect(written).toBe('{"a":"\\u009b2J", "n": 9007199254740993}\n');
});

test("a table is cut and coloured on a terminal, and neither in a pipe", () => {
  const columns = [{ title: "ID" }, { title: "ERROR" }];
  const rows = [["1", "x".repeat(100)]];
  new Output(false, sink(false)).table(columns, rows);
  expect(written).toBe(`ID  ERROR\n1   ${"x".repeat(100)}\n`);
  written = "";
  new Output(false, sink(true)).table(columns, rows);
  expect(written).toBe(`\u001b[1mID  ERROR\u001b[22m\n1   ${"x".repeat(35)}…\n`);
});

test("a failure's message cannot act on a terminal", () => {
  new Output(false, sink(false), sink(true)).error("no \u001b]0;such\u0007 customer\nat all");
  expect(written).toBe("\u001b[31merror:\u001b[39m no \\x1b]0;such\\x07 customer\\nat all\n");
});

test("a document is one line, with payloads digit for digit", () => {
  const document = {
    id: "1",
    result: new JsonText('{\n  "n": 1.50,\r\n  "big": 9007199254740993\n}'),
    list: [null],
  };
  expect(writeJson(document)).toBe(
    '{"id":"1","result":{   "n": 1.50,   "big": 9007199254740993 },"list":[null]}',
  );
});
