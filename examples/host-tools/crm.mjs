import { readCsv } from "./csv.mjs";

/**
 * @typedef {object} Customer
 * @property {string} id
 * @property {string} name
 * @property {string} email
 * @property {string} city
 *
 * @typedef {object} Order
 * @property {string} id
 * @property {string} date
 * @property {string} item
 * @property {number} quantity
 * @property {number} cents
 * @property {string} status `delivered`, `shipped`, `paid` or `unpaid`.
 */

/** Stands for your database. Every question names the shop that asks, and gets only that shop's data. */
export class Crm {
  /** @type {readonly (Customer & { shop: string })[]} */
  #customers;
  /** @type {readonly (Order & { customer: string })[]} */
  #orders;

  /**
   * @param {Record<string, string>[]} customers
   * @param {Record<string, string>[]} orders
   */
  constructor(customers, orders) {
    this.#customers = customers.map(({ id = "", shop = "", name = "", email = "", city = "" }) => {
      return { id, shop, name, email, city };
    });
    this.#orders = orders.map(({ id = "", customer = "", date = "", item = "", status = "", ...numbers }) => {
      const cents = Math.round(Number(numbers["total_eur"]) * 100);
      return { id, customer, date, item, status, quantity: Number(numbers["quantity"]), cents };
    });
  }

  /**
   * Loads customers.csv and orders.csv.
   *
   * @param {URL} folder Ends in `/`.
   */
  static async load(folder) {
    const files = ["customers.csv", "orders.csv"].map((name) => readCsv(new URL(name, folder)));
    const [customers = [], orders = []] = await Promise.all(files);
    return new Crm(customers, orders);
  }

  /**
   * @param {string} shop
   * @param {string} email
   * @returns {Customer | undefined}
   */
  findCustomer(shop, email) {
    const found = this.#customers.find((customer) => customer.shop === shop && customer.email === email);
    return found && withoutShop(found);
  }

  /**
   * The address of this shop's that a mistyped one probably means: one letter apart.
   *
   * @param {string} shop
   * @param {string} email
   * @returns {string | undefined}
   */
  closestEmail(shop, email) {
    const near = this.#customers
      .filter((customer) => customer.shop === shop)
      .map((customer) => ({ email: customer.email, distance: editDistance(customer.email, email) }))
      .sort((a, b) => a.distance - b.distance)[0];
    return near !== undefined && near.distance === 1 ? near.email : undefined;
  }

  /**
   * @param {string} shop
   * @param {string} email
   * @returns {Order[]} Oldest first; empty also for a customer that the shop does not have.
   */
  listOrders(shop, email) {
    const customer = this.findCustomer(shop, email);
    return this.#orders.filter((order) => order.customer === customer?.id).map(withoutCustomer);
  }

  /**
   * @param {string} shop
   * @param {string} id
   * @returns {{ order: Order, customer: Customer } | undefined}
   */
  findOrder(shop, id) {
    const order = this.#orders.find((candidate) => candidate.id === id);
    const customer = this.#customers.find(({ id: owner }) => owner === order?.customer);
    if (order === undefined || customer?.shop !== shop) return undefined;
    return { order: withoutCustomer(order), customer: withoutShop(customer) };
  }
}

/**
 * @param {Customer & { shop: string }} customer
 * @returns {Customer}
 */
const withoutShop = ({ id, name, email, city }) => ({ id, name, email, city });

/**
 * @param {Order & { customer: string }} order
 * @returns {Order}
 */
function withoutCustomer({ id, date, item, quantity, cents, status }) {
  return { id, date, item, quantity, cents, status };
}

/**
 * How many letters to add, drop or change to get from one word to the other.
 *
 * @param {string} from
 * @param {string} to
 * @returns {number}
 */
function editDistance(from, to) {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      const change = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(change, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
