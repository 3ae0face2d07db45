import { ToolError } from "@trunkline/sdk";

/**
 * @typedef {import("./crm.mjs").Customer} Customer
 * @typedef {import("./crm.mjs").Order} Order
 * @typedef {import("./bank.mjs").Entry} Entry
 *
 * @typedef {object} ShopTools The tools of toolset.mjs, as a script sees them.
 * @property {{
 *   find_customer(input: { email: string }): Customer,
 *   list_orders(input: { email: string }): Order[],
 *   find_order(input: { id: string }): { order: Order, customer: Customer },
 * }} crm
 * @property {{ find_transfers(input: { order: string }): Entry[] }} bank
 *
 * @typedef {(run: import("@trunkline/sdk").Run, ...args: string[]) => Promise<Record<string, unknown>>} Task
 */

/**
 * What the harness can be told to do. Each task is an ordinary function that calls tools: it neither knows
 * nor cares in which process they run, and which of them die.
 *
 * @type {Record<string, Task>}
 */
export const tasks = { customer, statements, refund, charge, ask };

/**
 * @param {import("@trunkline/sdk").Run} run
 * @returns {import("@trunkline/sdk").ToolProxy<ShopTools, import("@trunkline/sdk").OpenOptions>}
 */
const toolsOf = (run) => /** @type {ReturnType<typeof toolsOf>} */ (run.tools());

/**
 * Looks a customer up. A mistyped address is no reason to give up: the tool's failure carries the likely one.
 *
 * @type {Task}
 */
async function customer(run, email = "") {
  const { crm } = toolsOf(run);
  try {
    return { customer: await crm.find_customer({ email }), orders: await crm.list_orders({ email }) };
  } catch (error) {
    if (!(error instanceof ToolError) || error.kind !== "tool") throw error;
    const { didYouMean } = /** @type {{ didYouMean?: string | null }} */ (error.data ?? {});
    if (didYouMean === undefined || didYouMean === null) throw error;
    console.error(`"${error.message}", says the tool, and offers ${didYouMean}: taken`);
    const failure = { message: error.message, data: error.data };
    return { ...(await customer(run, didYouMean)), corrected: { from: email, to: didYouMean, failure } };
  }
}

/**
 * The orders of several customers at once: calls of one turn run side by side, and come back together.
 *
 * @type {Task}
 */
async function statements(run, ...emails) {
  const turn = run.turn(1);
  await Promise.all(emails.map((email) => turn.open("crm.list_orders", { email })));
  const outcomes = await turn.settled();
  const rows = outcomes.map(({ callId, result, error }, index) => {
    if (error !== undefined) return { callId, email: emails[index], error: error.message };
    const orders = /** @type {Order[]} */ (result);
    return { callId, email: emails[index], cents: sum(orders.map(({ cents }) => cents)) };
  });
  return { statements: rows };
}

/**
 * Pays an order back. Whatever happens to workers, the bank sees one idempotency key.
 *
 * @type {Task}
 */
async function refund(run, id = "") {
  const { order } = await toolsOf(run).crm.find_order({ id });
  const call = await run.open("bank.refund", { order: id, cents: order.cents });
  const outcome = await call.outcome();
  if (outcome.state !== "succeeded") throw new ToolError(call.id, outcome.error);
  return { callId: call.id, attempt: outcome.attempt, entry: outcome.result };
}

/**
 * Charges an order. When nobody can know whether the card was charged, the script does not guess and does
 * not try again: it looks at the bank's books.
 *
 * @type {Task}
 */
async function charge(run, id = "") {
  const { crm, bank } = toolsOf(run);
  const { order } = await crm.find_order({ id });
  try {
    const entry = await run.call("bank.charge", { order: id, cents: order.cents });
    return { entry };
  } catch (error) {
    if (!(error instanceof ToolError) || !error.outcomeUnknown) throw error;
    const { callId, kind, message, outcomeUnknown } = error;
    console.error(`"${message}": outcome unknown, so the script looks at the bank's books`);
    const found = await bank.find_transfers({ order: id });
    return { failure: { callId, kind, message, outcomeUnknown }, found };
  }
}

/**
 * Asks the shop's owner, and waits. An hour or a week later is fine, and so is a restart of the server.
 *
 * @type {Task}
 */
async function ask(run, id = "") {
  const { order, customer } = await toolsOf(run).crm.find_order({ id });
  const call = await run.open("ask_user", {
    question: `${customer.name} wants to return "${order.item}" (${id}). Take it back?`,
    options: ["yes", "no"],
  });
  console.error(`asked the owner (call ${call.id}); waiting`);
  const outcome = await call.outcome();
  if (outcome.state !== "succeeded") throw new ToolError(call.id, outcome.error);
  return { callId: call.id, attempt: outcome.attempt, answer: outcome.result };
}

/** @type {(numbers: readonly number[]) => number} */
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
