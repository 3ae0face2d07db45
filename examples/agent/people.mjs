/**
 * Stands for the people: the traveller, who always takes the first option, and the manager, who approves everything.
 * Without it, answer yourself, as README.md shows.
 *
 *     node people.mjs
 */
import { setTimeout as delay } from "node:timers/promises";
import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { Approvals } from "./approvals.mjs";
import { APPROVALS_DIR } from "./places.mjs";

/** How often they look, in milliseconds. */
const { LOOK_EVERY_MS = "300" } = process.env;

/** Somebody else has answered, the call has ended otherwise, or the token is not good yet. */
const MISSED = /^(CALL_ENDED|STALE_ATTEMPT|NOT_FOUND|TOKEN_INVALID)$/;

const trunkline = new Trunkline();
const approvals = new Approvals(APPROVALS_DIR);
const leaving = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => leaving.abort());
console.log("the people are there");

while (!leaving.signal.aborted) {
  await chooseFirst();
  await approveAll();
  await delay(Number(LOOK_EVERY_MS), undefined, { signal: leaving.signal }).catch(() => undefined);
}
await trunkline.close();

/** The traveller: settles client calls by their ids, as a page does. */
async function chooseFirst() {
  const asked = await trunkline.calls.list({ state: "deferred", tool: "ask_traveller", payloads: true });
  for (const { id, input } of asked.items) {
    const { options } = /** @type {{ options: string[] }} As the tool's schema has it. */ (input);
    const result = { choice: options[0] };
    await unlessMissed(`chose ${result.choice}`, id, () =>
      trunkline.calls.settle(id, { type: "tool.result", result }),
    );
  }
}

/** The manager: answers by token, without a key, as `trunkline complete` does. */
async function approveAll() {
  for (const { callId, cents, token } of await approvals.list()) {
    await unlessMissed(`approved ${cents} cents`, callId, async () => {
      await trunkline.tasks.complete(token, { approved: true, by: "manager" });
      await approvals.remove(callId);
    });
  }
}

/**
 * @param {string} what
 * @param {string} callId
 * @param {() => Promise<unknown>} answer
 */
async function unlessMissed(what, callId, answer) {
  try {
    await answer();
    console.log(`${what}  (call ${callId})`);
  } catch (error) {
    // What may be answered still, the next look finds again.
    if (!(error instanceof TrunklineError && MISSED.test(error.reason))) throw error;
  }
}
