import { fromBinary, fromJsonString } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { Random } from "../fault-run/random.mjs";
import { toBytes } from "./input/binary.mjs";
import { toJsonText } from "./input/json-body.mjs";
import { Known } from "./input/known.mjs";
import { Filler } from "./input/message.mjs";
import { Judge } from "./judge.mjs";
import { METHODS } from "./kinds/context.mjs";

const nothingOwn = (): boolean => false;

describe("an input", () => {
  test("without anything hostile in it is a message of its type, in binary and as JSON", () => {
    for (const { input, name } of METHODS) {
      for (let round = 0; round < 20; round++) {
        const random = new Random(`${name}/${round}`);
        const filled = new Filler(random, new Known(nothingOwn), 0).message(input);
        expect(fromJsonString(input, toJsonText(random, filled, 0))).toEqual(
          fromBinary(input, toBytes(filled)),
        );
      }
    }
  });

  test("is the same again with the same seed", () => {
    const [first, second] = [1, 2].map(() => {
      const random = new Random("seed/1");
      return METHODS.map(({ input }) => toBytes(new Filler(random, new Known(nothingOwn)).message(input)));
    });
    expect(first).toEqual(second);
  });
});

describe("an answer", () => {
  test.each([
    ["hang", ""],
    ["internal", "the server failed; its log says more"],
    ["http 500", "internal error"],
    ["unknown", "x"],
  ])("of %s is a finding", (code, text) => {
    const judge = new Judge();
    expect(judge.take(1, "kind", { code, text })).toEqual({ input: 1, kind: "kind", code, text });
    expect(judge.findings).toHaveLength(1);
  });

  test.each([
    ["ok", ""],
    ["invalid_argument", "x"],
    ["internal", "protocol error: compressed, without an encoding"],
    ["http 505", "x"],
  ])("of %s is none", (code, text) => {
    expect(new Judge().take(1, "kind", { code, text })).toBeUndefined();
  });
});
