"""Stands for your database: the customers and orders of two shops."""

import csv
from pathlib import Path


class Crm:
    """Every question names the shop that asks, and gets only that shop's data."""

    def __init__(self, folder: Path) -> None:
        self._customers = read_csv(folder / "customers.csv")
        self._orders = read_csv(folder / "orders.csv")

    def find_customer(self, shop: str, email: str) -> dict | None:
        rows = (row for row in self._customers if row["shop"] == shop and row["email"] == email)
        return next(map(as_customer, rows), None)

    def closest_email(self, shop: str, email: str) -> str | None:
        """The address of this shop's that a mistyped one probably means."""
        emails = (row["email"] for row in self._customers if row["shop"] == shop)
        return next((known for known in emails if is_one_letter_off(known, email)), None)

    def list_orders(self, shop: str, email: str) -> list[dict]:
        """Oldest first; empty also for a customer that the shop does not have."""
        customer = self.find_customer(shop, email)
        return [as_order(row) for row in self._orders if customer and row["customer"] == customer["id"]]

    def find_order(self, shop: str, order_id: str) -> dict | None:
        """An order and its customer."""
        order = next((row for row in self._orders if row["id"] == order_id), None)
        customer = next((row for row in self._customers if order and row["id"] == order["customer"]), None)
        if not order or not customer or customer["shop"] != shop:
            return None
        return {"order": as_order(order), "customer": as_customer(customer)}


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def as_customer(row: dict[str, str]) -> dict:
    return {name: row[name] for name in ("id", "name", "email", "city")}


def as_order(row: dict[str, str]) -> dict:
    texts = {name: row[name] for name in ("id", "date", "item", "status")}
    return {**texts, "quantity": int(row["quantity"]), "cents": cents(row["total_eur"])}


def cents(euro: str) -> int:
    return round(float(euro) * 100)


def is_one_letter_off(one: str, other: str) -> bool:
    """Whether a letter was added, dropped or changed."""
    same = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    rest, other_rest = one[same:], other[same:]
    return one != other and (
        rest[1:] == other_rest[1:] or rest[1:] == other_rest or rest == other_rest[1:]
    )
