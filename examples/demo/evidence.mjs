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
