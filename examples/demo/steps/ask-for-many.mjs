import { CAST, ordersOf, totalOf } from "../cast.mjs";
import { formatEuro, formatTime } from "../terminal.mjs";

const LOOKUP_MS = 200;

/** @type {import("../story.mjs").Step} */
export const askForMany = {
  title: "Eight questions at once",
  text: `A model often asks for several tools in one turn. They run side by side, on whichever worker has
    room; the turn is settled when the last has ended, with one outcome per call, in order.`,

  async play({ stage, books, promises }) {
    const script = stage.program("script");
    script.write(`statements ${CAST.debtors.join(" ")}`);
    const { statements, ms } = await stage.jsonResult(script);
    /** @type {{ email: string, cents: number }[]} */
    const rows = statements;
    const { items } = await stage.client.calls.list({ tool: "crm.list_orders", turn: 1 });
    const workers = new Set(items.map(({ worker }) => worker));
    const inTurn = CAST.debtors.length * LOOKUP_MS;
    promises.check(
      "Calls of one turn run side by side, and come back complete and in order.",
      `${rows.length} statements, ${formatEuro(rows.reduce((sum, { cents }) => sum + cents, 0))} in all, ` +
        `from ${workers.size} workers in ${formatTime(ms)}; one after the other: ${formatTime(inTurn)}`,
      {
        "one outcome per call, in order": rows.map(({ email }) => email).join() === CAST.debtors.join(),
        "the sums are those of the CSV": rows.every(
          ({ email, cents }) => cents === totalOf(ordersOf(books, email)),
        ),
        "the turn has as many calls": items.length === CAST.debtors.length,
        "it was faster than one after the other": ms < inTurn,
      },
    );
  },
};
