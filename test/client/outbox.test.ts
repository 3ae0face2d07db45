import { create } from "@bufbuild/protobuf";
import { AnswerSchema } from "@trunkline/proto/worker";
import { expect, test } from "vitest";
import { Outbox, type OutboxItem } from "../../client/src/outbox.js";

const answer = (claimId: string, bytes: number): OutboxItem => ({
  kind: "answer",
  claimId,
  answer: create(AnswerSchema, { claimId }),
  bytes,
});

test("an item is kept, in order, until its acknowledgement, which counts once", () => {
  const outbox = new Outbox();
  outbox.put(answer("a", 10));
  outbox.put({ kind: "release", callId: "r/1", claimId: "b", bytes: 20 });
  expect(outbox.items().map(({ claimId }) => claimId)).toEqual(["a", "b"]);
  expect(outbox.has("a")).toBe(true);
  expect(outbox.take("a")?.kind).toBe("answer");
  expect(outbox.take("a")).toBeUndefined();
  expect(outbox.size).toBe(1);
});

test("a claim has one item, the last one given", () => {
  const outbox = new Outbox();
  outbox.put(answer("a", 500));
  outbox.put(answer("a", 10));
  expect(outbox.size).toBe(1);
  expect(outbox.largest()?.bytes).toBe(10);
});
