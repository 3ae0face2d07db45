import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { CAST, readBooks } from "../../examples/demo/cast.mjs";
import { Crm } from "../../examples/host-tools/crm.mjs";
import { readCsv } from "../../examples/host-tools/csv.mjs";
import { generate } from "../../examples/host-tools/data/generate.mjs";

const folder = new URL("../../examples/host-tools/data/", import.meta.url);

describe("the examples' data", () => {
  test("are what their generator writes", async () => {
    const { customers, orders } = generate();
    expect(await readFile(new URL("customers.csv", folder), "utf8")).toBe(customers);
    expect(await readFile(new URL("orders.csv", folder), "utf8")).toBe(orders);
  });

  test("are over 200 customers and orders that belong together", async () => {
    const { customers, orders } = await readBooks();
    expect(customers.length).toBeGreaterThanOrEqual(200);
    expect(orders.length).toBeGreaterThanOrEqual(200);
    const ids = new Set(customers.map((row) => row["id"]));
    expect(ids.size).toBe(customers.length);
    expect(new Set(customers.map((row) => row["email"])).size).toBe(customers.length);
    expect(orders.filter((row) => !ids.has(row["customer"]))).toEqual([]);
    expect(orders.filter((row) => !(Number(row["total_eur"]) > 0))).toEqual([]);
  });

  test("have everybody whom the demo's story is about, in the shop that it plays in", async () => {
    const crm = await Crm.load(folder);
    for (const email of [CAST.customer, ...CAST.debtors]) {
      expect(crm.findCustomer("harbour", email)?.email).toBe(email);
      expect(crm.findCustomer("old-town", email)).toBeUndefined();
    }
    expect(crm.closestEmail("harbour", CAST.mistyped)).toBe(CAST.customer);
    for (const order of [CAST.refundOrder, CAST.chargeOrder, CAST.returnOrder]) {
      expect(crm.findOrder("harbour", order)?.order.id).toBe(order);
      expect(crm.findOrder("old-town", order)).toBeUndefined();
    }
  });

  test("have every order that the README's commands name, in the shop for which the harness acts", async () => {
    const crm = await Crm.load(folder);
    const readme = await readFile(new URL("../README.md", folder), "utf8");
    const orders = [...readme.matchAll(/^node harness.mjs .*(O-\d+)/gm)].map(([, id = ""]) => id);
    expect(orders.length).toBeGreaterThan(0);
    expect(orders.filter((id) => crm.findOrder("harbour", id) === undefined)).toEqual([]);
  });

  test("are read with quoted fields as one field", async () => {
    const orders = await readCsv(new URL("orders.csv", folder));
    expect(orders.find((row) => row["id"] === "O-20001")).toEqual({
      ...{ id: "O-20001", customer: "C-1075", date: "2025-01-01", item: "Chain, 11-speed" },
      ...{ quantity: "3", total_eur: "86.70", status: "delivered" },
    });
  });
});
