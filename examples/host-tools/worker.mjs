/**
 * Runs the shop's tools. Start as many as you like, on as many machines as you like:
 *
 *     node worker.mjs [name]
 */
import { setTimeout as delay } from "node:timers/promises";
import { HostToolError, Trunkline } from "@trunkline/sdk";
import { Bank } from "./bank.mjs";
import { Crm } from "./crm.mjs";
import { Inbox } from "./inbox.mjs";
import { INBOX_DIR, LEDGER_FILE } from "./places.mjs";
import { TOOLSET } from "./toolset.mjs";

/** How long the stand-ins for a database and a bank take. */
const { CRM_DELAY_MS = "250", BANK_CONFIRM_MS = "1000" } = process.env;

const crm = await Crm.load(new URL("data/", import.meta.url));
const bank = new Bank(LEDGER_FILE, Number(BANK_CONFIRM_MS));
const inbox = new Inbox(INBOX_DIR);

/**
 * @param {import("@trunkline/sdk").ToolContext} ctx
 * @param {string} what
 */
function log(ctx, what) {
  console.log(`${ctx.tool} ${what}  (key ${ctx.idempotencyKey}, attempt ${ctx.attempt})`);
}

/** @type {Record<string, import("@trunkline/sdk").ToolHandler>} */
const tools = {
  "crm.find_customer": async (/** @type {{ email: string }} */ { email }, ctx) => {
    log(ctx, email);
    await delay(Number(CRM_DELAY_MS), undefined, { signal: ctx.signal });
    // The run acts for one shop: look among its customers only.
    const customer = crm.findCustomer(ctx.namespace, email);
    if (customer !== undefined) return customer;
    const didYouMean = crm.closestEmail(ctx.namespace, email) ?? null;
    throw new HostToolError(`no customer ${email}`, { data: { code: "not_found", didYouMean } });
  },

  "crm.list_orders": async (/** @type {{ email: string }} */ { email }, ctx) => {
    log(ctx, email);
    await delay(Number(CRM_DELAY_MS), undefined, { signal: ctx.signal });
    return crm.listOrders(ctx.namespace, email);
  },

  "crm.find_order": async (/** @type {{ id: string }} */ { id }, ctx) => {
    log(ctx, id);
    const found = crm.findOrder(ctx.namespace, id);
    if (found === undefined) throw new HostToolError(`no order ${id}`, { data: { code: "not_found" } });
    return found;
  },

  // May run again after a crash: the idempotency key, the same on every attempt, keeps it to one payment.
  "bank.refund": async (/** @type {{ order: string, cents: number }} */ request, ctx) => {
    log(ctx, request.order);
    return bank.refund({ ...request, key: ctx.idempotencyKey }, ctx.signal);
  },

  // Is declared at_most_once, because there is no key to give.
  "bank.charge": async (/** @type {{ order: string, cents: number }} */ request, ctx) => {
    log(ctx, request.order);
    return bank.charge(request, ctx.signal);
  },

  "bank.find_transfers": async (/** @type {{ order: string }} */ { order }, ctx) => {
    log(ctx, order);
    return (await bank.ledger()).filter((entry) => entry.order === order && entry.repeated !== true);
  },

  ask_user: async (/** @type {{ question: string, options: string[] }} */ { question, options }, ctx) => {
    log(ctx, JSON.stringify(question));
    const name = `q${ctx.seq}-${ctx.runId.slice(-4)}`;
    // Saved before anything can go wrong, shown once the token is good.
    const token = ctx.newToken();
    await inbox.save({ name, to: ctx.namespace, question, options, token });
    await ctx.defer({ token, timeout: "3d" });
    await inbox.publish(name);
    // What is returned now is no answer: whoever holds the token answers (answer.mjs).
  },
};

const trunkline = new Trunkline();
const worker = trunkline.worker({
  toolset: TOOLSET,
  tools,
  ...(process.argv[2] && { name: process.argv[2] }),
});
console.log(`${worker.name} takes calls`);

// Finishes what it has begun, hands back what it has not, then ends.
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void worker.stop());
await worker.done;
