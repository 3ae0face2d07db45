import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { AnswerSchema, DeferralSchema } from "@trunkline/proto/worker";
import { Outbox, type Item } from "./outbox.js";

const answer = (claimId: string): Item => ({
  kind: "answer",
  claimId,
  answer: create(AnswerSchema, { claimId }),
  size: 0,
});

test("items stay in order until their ack", () => {
  const outbox = new Outbox();
  for (const claimId of ["c", "a", "b"]) outbox.put(answer(claimId));
  assert.equal(outbox.take("a")?.claimId, "a");
  assert.deepEqual(
    outbox.items().map(({ claimId }) => claimId),
    ["c", "b"],
  );
  assert.equal(outbox.has("a"), false);
  assert.equal(outbox.has("b"), true);
});

test("a second ack finds nothing", () => {
  const outbox = new Outbox();
  outbox.put(answer("a"));
  outbox.take("a");
  assert.equal(outbox.take("a"), undefined);
});

test("the first word of a claim stays, since it may have been stored", () => {
  const outbox = new Outbox();
  const deferral = create(DeferralSchema, { claimId: "a" });
  assert.equal(outbox.put({ kind: "deferral", claimId: "a", deferral, size: 0 }), true);
  assert.equal(outbox.put(answer("a")), false);
  assert.equal(outbox.take("a")?.kind, "deferral");
});
