import { readCsv } from "../host-tools/csv.mjs";

const DATA = new URL("../host-tools/data/", import.meta.url);

/** Who and what the story is about. All are of the shop for which the harness acts. */
export const CAST = {
  customer: "mia.rossi@example.com",
  mistyped: "mia.rosi@example.com",
  debtors: [
    ...["fatima.nilsson@example.com", "mara.adeyemi@example.com", "ines.hansen@example.com"],
    ...["david.fontana@example.com", "ines.tanaka@example.com", "samuel.dubois@example.com"],
    ...["anna.wagner@example.com", "luca.weber@example.com"],
  ],
  refundOrder: "O-20518",
  chargeOrder: "O-20605",
  returnOrder: "O-20634",
  month: "2025-03",
};

/**
 * The CSV files as they are on disk, to hold what the script was told against.
 *
 * @typedef {object} Books
 * @property {Record<string, string>[]} customers
 * @property {Record<string, string>[]} orders
 */

/** @returns {Promise<Books>} */
export async function readBooks() {
  const [customers = [], orders = []] = await Promise.all(
    ["customers.csv", "orders.csv"].map((name) => readCsv(new URL(name, DATA))),
  );
  return { customers, orders };
}

/** The file that the report program is given. */
export const ORDERS_CSV = new URL("orders.csv", DATA);

/**
 * @param {Books} books
 * @param {string} email
 */
export function ordersOf({ customers, orders }, email) {
  const customer = customers.find((row) => row["email"] === email);
  return orders.filter((row) => row["customer"] === customer?.["id"]);
}

/** @type {(orders: readonly Record<string, string>[]) => number} In cents. */
export const totalOf = (orders) =>
  orders.reduce((cents, row) => cents + Math.round(Number(row["total_eur"]) * 100), 0);
