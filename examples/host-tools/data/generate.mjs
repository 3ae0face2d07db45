/**
 * Writes customers.csv and orders.csv: a small chain of bicycle shops in the year 2025. The same seed gives
 * the same files, byte for byte. People and addresses are made up; example.com belongs to nobody.
 *
 *     node data/generate.mjs [folder]
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SEED = 7788;
const CUSTOMERS = 240;
const ORDERS = 640;

const FIRST_NAMES =
  "Ada Amir Anna Ben Carla Chidi Clara David Elena Emil Fatima Finn Grace Hana Hugo Ines Ivan Jonas Julia Kofi Lara Leon Lina Luca Mara Mateo Mia Nadia Noah Nora Oskar Paula Priya Rosa Samuel Sofia Tariq Tom Vera Yuki";
const LAST_NAMES =
  "Adeyemi Andersen Bauer Becker Brandt Costa Diaz Dubois Fischer Fontana Haddad Hansen Ito Jansen Keller Klein Kowalski Lindholm Lopez Marino Meyer Moreau Nilsson Novak Okafor Patel Petrov Reyes Rossi Sato Schmidt Silva Tanaka Virtanen Wagner Weber Wolf Zimmermann";
const CITIES = "Bremen Hamburg Kiel Leipzig Lübeck Rostock Schwerin Stralsund";
const SHOPS = ["harbour", "old-town"];

/** Name and price in cents. */
const ITEMS = /** @type {const} */ ([
  ["Brake pads", 1290],
  ["Chain, 11-speed", 2890],
  ["City bike", 64900],
  ["Floor pump", 3450],
  ["Frame bag", 4200],
  ["Helmet", 7990],
  ["Inner tube", 650],
  ["Light set, USB", 3990],
  ["Lock, folding", 8950],
  ["Pannier, 20 l", 6900],
  ["Rain cape", 4990],
  ["Saddle", 5490],
  ["Service, complete", 11900],
  ["Tyre, 28 inch", 3290],
]);

/** Of ten orders: seven delivered, one shipped, one paid and one not. */
const STATUSES = "delivered delivered delivered delivered delivered delivered delivered shipped paid unpaid";

/**
 * Mulberry32: small, and the same on every machine.
 *
 * @param {number} seed
 * @returns {(below: number) => number} Whole numbers from 0.
 */
function randomFrom(seed) {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) % below;
  };
}

/** @type {(value: string | number) => string} */
const field = (value) => (/[",\n]/.test(`${value}`) ? `"${`${value}`.replaceAll('"', '""')}"` : `${value}`);

/** @type {(rows: readonly (readonly (string | number)[])[]) => string} */
const toCsv = (rows) => rows.map((row) => `${row.map(field).join(",")}\n`).join("");

/**
 * Both files as text.
 *
 * @returns {{ customers: string, orders: string }}
 */
export function generate() {
  const random = randomFrom(SEED);
  /** @type {(words: string) => string} */
  const pick = (words) => words.split(" ").at(random(words.split(" ").length)) ?? "";
  /** @type {(dayOfYear: number) => string} */
  const dayOf2025 = (dayOfYear) => new Date(Date.UTC(2025, 0, 1 + dayOfYear)).toISOString().slice(0, 10);

  /** @type {(string | number)[][]} */
  const customers = [["id", "shop", "name", "email", "city", "since"]];
  const names = new Set();
  while (names.size < CUSTOMERS) {
    const name = `${pick(FIRST_NAMES)} ${pick(LAST_NAMES)}`;
    if (names.has(name)) continue;
    names.add(name);
    const email = `${name.toLowerCase().replace(" ", ".")}@example.com`;
    const since = 2014 + random(11);
    customers.push([`C-${1000 + names.size}`, SHOPS.at(random(2)) ?? "", name, email, pick(CITIES), since]);
  }

  const days = Array.from({ length: ORDERS }, () => random(365)).sort((a, b) => a - b);
  const orders = days.map((day, index) => {
    const customer = 1001 + random(CUSTOMERS);
    const [item, cents] = ITEMS.at(random(ITEMS.length)) ?? ITEMS[0];
    const quantity = cents > 10_000 ? 1 : 1 + random(3);
    const total = ((cents * quantity) / 100).toFixed(2);
    return [`O-${20_001 + index}`, `C-${customer}`, dayOf2025(day), item, quantity, total, pick(STATUSES)];
  });
  const heads = ["id", "customer", "date", "item", "quantity", "total_eur", "status"];
  return { customers: toCsv(customers), orders: toCsv([heads, ...orders]) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? fileURLToPath(new URL(".", import.meta.url));
  const { customers, orders } = generate();
  await writeFile(join(folder, "customers.csv"), customers);
  await writeFile(join(folder, "orders.csv"), orders);
}
