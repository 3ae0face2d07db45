import { CAST, ordersOf } from "../cast.mjs";
import { formatTime } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const lookUp = {
  title: "Look a customer up",
  text: `The script calls crm.find_customer and crm.list_orders as if they were functions. The server stores
    each call, streams it to a worker with room, and streams the answer back. (A lookup takes 200 ms here.)`,

  async play({ stage, books, promises }) {
    const script = stage.program("script");
    script.write(`customer ${CAST.customer}`);
    const { customer, orders, ms } = await stage.jsonResult(script);
    const expected = ordersOf(books, CAST.customer);
    promises.check(
      "A call opened in one process is answered by another.",
      `${customer.name} of ${customer.city}, ${orders.length} orders, as in the CSV; ` +
        `two calls in ${formatTime(ms)}, of which the tools took 400 ms`,
      {
        "it is the customer": customer.email === CAST.customer,
        "the orders are those of the CSV": sameIds(orders, expected),
      },
    );
  },
};

/**
 * @param {{ id: string }[]} found
 * @param {Record<string, string>[]} expected
 */
function sameIds(found, expected) {
  const ids = found.map(({ id }) => id);
  return ids.length > 0 && ids.join() === expected.map((row) => row["id"]).join();
}
