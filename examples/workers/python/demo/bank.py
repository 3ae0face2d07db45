"""Stands for a bank outside: its ledger is a file that every worker process can reach. It books at once and confirms
after a while, so that a worker can die between the two."""

import asyncio
import json
import secrets
from pathlib import Path


class Bank:
    def __init__(self, file: Path, confirm_seconds: float) -> None:
        self._file = file
        self._confirm_seconds = confirm_seconds

    async def refund(self, order: str, cents: int, key: str) -> dict:
        """Pays back. Asked again with the same key, it answers with the transfer that was made."""
        known = next((entry for entry in self.ledger() if entry.get("key") == key), None)
        if known:
            return self._book("refund", order, cents, transfer=known["transfer"], key=key, repeated=True)
        entry = self._book("refund", order, cents, key=key)
        await asyncio.sleep(self._confirm_seconds)
        return entry

    async def charge(self, order: str, cents: int) -> dict:
        """Takes money from the customer's card. The card terminal knows no keys: asked twice, it charges twice."""
        entry = self._book("charge", order, cents)
        await asyncio.sleep(self._confirm_seconds)
        return entry

    def ledger(self) -> list[dict]:
        """Everything that was asked of the bank, oldest first."""
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text("utf-8").splitlines()]

    def _book(self, kind: str, order: str, cents: int, *, transfer: str = "", **more: object) -> dict:
        transfer = transfer or f"tr_{secrets.token_hex(4)}"
        entry = {"kind": kind, "transfer": transfer, "order": order, "cents": cents, **more}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(entry) + "\n")
        return entry
