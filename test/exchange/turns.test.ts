import { expect, test } from "vitest";
import { Session } from "../../server/src/exchange/session.js";
import { Turns } from "../../server/src/exchange/turns.js";
import type { ClaimedRow } from "../../server/src/store/calls-claim.js";
import { SCOPE } from "./support/exchanges.js";

function session(number: number, tools: readonly string[]): Session {
  const facts = {
    sessionId: `s${number}`,
    nonce: "n",
    worker: "w",
    sdk: "test",
    tools,
    toolset: null,
    helloNumber: 0,
  };
  return new Session(SCOPE, number, 1, facts, 0);
}

/** Only the namespace counts here. */
const claimed = (...namespaces: readonly string[]): ClaimedRow[] =>
  namespaces.map((namespace, slot) => ({ record: { call: { namespace } }, slot }) as unknown as ClaimedRow);

test("those who ask for the same share a turn, which goes with the last of them, so that none is kept for nobody", () => {
  const turns = new Turns();
  const [one, two, other] = [session(1, ["a", "b"]), session(2, ["a", "b"]), session(3, ["a"])];
  for (const each of [one, two, other]) turns.add(each);
  expect(one.groupKey).toBe(two.groupKey);
  turns.served(one.groupKey, claimed("alice", "bob"));
  turns.served(one.groupKey, []);
  expect([turns.servedLast(two.groupKey), turns.servedLast(other.groupKey)]).toEqual(["bob", ""]);
  turns.remove(one);
  turns.remove(one);
  expect(turns.servedLast(two.groupKey)).toBe("bob");
  turns.remove(two);
  turns.served(two.groupKey, claimed("carol"));
  expect(turns.servedLast(two.groupKey)).toBe("");
  turns.add(two);
  expect(turns.servedLast(two.groupKey)).toBe("");
});
