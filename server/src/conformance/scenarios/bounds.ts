import { FailureKind } from "@trunkline/proto/model";
import type { Kit } from "../kit.js";
import { need, same, sameText } from "../mismatch.js";
import type { Scenario } from "../scenario.js";
import { failureOf, resultOf } from "./answers.js";

/** What is as deep or as large as may be, and what is more than that. */
export const BOUNDS: readonly Scenario[] = [
  { number: 25, title: "deep nesting", play: deepNesting },
  { number: 26, title: "oversized result", play: oversizedResult },
];

/** How deep the server lets input nest; parsers have limits of their own, of 100 in some. */
const MAX_DEPTH = 256;
/** Above the stack of whatever walks it by recursion. */
const BOTTOMLESS = 100_000;

const arrays = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
const objects = (depth: number): string => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);

async function deepNesting(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  for (const nested of [arrays, objects]) {
    const data = nested(MAX_DEPTH - 1);
    const claim = kit.claim("fail", `{"message":"deep","data":${data},"retryable":false}`);
    stream.give(claim);
    const { kind, message, dataJson } = failureOf(await kit.answer(stream, claim));
    same("the failure's kind", FailureKind[kind], "TOOL");
    same("the failure's message", message, "deep");
    sameText("the failure's data, without white space", dataJson.replaceAll(/\s/g, ""), data);
    stream.ack(claim);
  }
  for (const nested of [arrays, objects]) {
    const claim = kit.claim("fail", `{"message":"deeper","data":${nested(BOTTOMLESS)}}`);
    stream.give(claim);
    same("whether it is to be retried", failureOf(await kit.answer(stream, claim)).retryable, false);
    stream.ack(claim);
  }
  await kit.goesOn(stream);
}

/** Less than what is usual, so that it is the server's word that counts. */
const MAX_RESULT_BYTES = 100_000;
const MORE_THAN_A_FRAME = 5 * 1024 * 1024;
const QUOTES = 2;

async function oversizedResult(kit: Kit): Promise<void> {
  kit.start();
  const stream = await kit.arrival();
  stream.welcome(undefined, ({ welcome }) => {
    if (welcome !== undefined) welcome.maxResultBytes = MAX_RESULT_BYTES;
  });
  const fits = kit.claim("big", `{"bytes":${MAX_RESULT_BYTES - QUOTES}}`);
  stream.give(fits);
  const result = resultOf(await kit.answer(stream, fits));
  sameText("the result", result, `"${"x".repeat(MAX_RESULT_BYTES - QUOTES)}"`);
  stream.ack(fits);

  const sizes = [MAX_RESULT_BYTES - QUOTES + 1, MORE_THAN_A_FRAME];
  const claims = sizes.map((bytes) => kit.claim("big", `{"bytes":${bytes}}`));
  stream.give(...claims);
  for (const claim of claims) {
    const { kind, message, retryable } = failureOf(await kit.answer(stream, claim));
    same("the failure's kind", FailureKind[kind], "OVERSIZED");
    need(message !== "", "a message that says what is too large", "none");
    same("the failure's `retryable`", retryable, false);
    stream.ack(claim);
  }
  await kit.calm(stream, "one answer for each claim", () =>
    claims.some((claim) => stream.answersTo(claim).length > 1) ? "another one" : undefined,
  );
  await kit.goesOn(stream);
}
