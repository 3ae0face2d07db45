import { Bank } from "../host-tools/bank.mjs";
import { Inbox } from "../host-tools/inbox.mjs";

/**
 * What the bank has been asked, oldest first.
 *
 * @param {import("./stage.mjs").Stage} stage
 */
export const readLedger = (stage) => new Bank(stage.ledgerFile, 0).ledger();

/**
 * The questions that are shown to people.
 *
 * @param {import("./stage.mjs").Stage} stage
 */
export const readInbox = (stage) => new Inbox(stage.inboxFolder).list();

/**
 * How many attempts each worker has had, of all calls, as the server knows it.
 *
 * @param {import("./stage.mjs").Stage} stage
 * @returns {Promise<Map<string, number>>} By the workers' names, in their order.
 */
export async function attemptsByWorker(stage) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for await (const call of await stage.client.calls.list()) {
    const failed = call.attempts.map(({ number, worker }) => /** @type {const} */ ([number, worker]));
    // The last attempt is among those if it has failed.
    const attempts = new Map([...failed, [call.attempt, call.worker ?? ""]]);
    for (const worker of attempts.values()) counts.set(worker, (counts.get(worker) ?? 0) + 1);
  }
  return new Map([...counts].sort());
}

/**
 * The worker that runs the one call of a tool that is running, as the server knows it.
 *
 * @param {import("./stage.mjs").Stage} stage
 * @param {string} tool
 */
export async function claimedBy(stage, tool) {
  const name = await stage.until(`the worker of ${tool}`, async () => {
    const { items } = await stage.client.calls.list({ tool, state: "claimed" });
    return items[0]?.worker;
  });
  return stage.program(name);
}
