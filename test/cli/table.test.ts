import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { displayWidth } from "../../server/src/cli/display-width.js";
import { layOut } from "../../server/src/cli/table.js";

const COLUMNS = [{ title: "ID", whole: true }, { title: "TOOL" }, { title: "ERROR" }];

describe("a table", () => {
  test("has columns as wide as their widest cell", () => {
    const rows = [
      ["1", "crm.find_customer", ""],
      ["22", "echo", "no such customer"],
    ];
    expect(layOut(COLUMNS, rows, undefined)).toEqual([
      "ID  TOOL               ERROR",
      "1   crm.find_customer",
      "22  echo               no such customer",
    ]);
  });

  test("cuts its widest columns to fit the terminal, and never an id", () => {
    const id = "0198c0de-0000-7000-8000-000000000000/1";
    const lines = layOut(COLUMNS, [[id, "a.rather.long.name.of.a.tool", "x".repeat(500)]], 80);
    expect(lines[1]).toContain(id);
    expect(lines[1]).toContain("…");
    expect(Math.max(...lines.map(displayWidth))).toBe(80);
  });

  test("shows the control sequences of a cell and keeps it on its line", () => {
    const lines = layOut(COLUMNS, [["1", "\u001b[2Jgone", "one\ntwo"]], undefined);
    expect(lines[1]).toBe("1   \\x1b[2Jgone  one\\ntwo");
  });

  test("counts wide characters as two cells and combining ones as none", () => {
    expect([displayWidth("字"), displayWidth("e\u0301"), displayWidth("🙂"), displayWidth("ab")]).toEqual([
      2, 1, 2, 2,
    ]);
  });

  test("is never wider than the terminal while its columns can be cut, whatever is in them", () => {
    const cell = fc.string({ unit: "grapheme", maxLength: 200 });
    fc.assert(
      fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1 }), (rows) => {
        const columns = [{ title: "A" }, { title: "B" }, { title: "C" }];
        expect(Math.max(...layOut(columns, rows, 40).map(displayWidth))).toBeLessThanOrEqual(40);
      }),
    );
  });
});
