"""The shop's tools, as examples/host-tools/worker.mjs has them."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path

from trunkline_worker import Call, Handler, ToolError, parsed

from .bank import Bank
from .crm import Crm
from .inbox import Inbox


def tools() -> dict[str, Handler]:
    crm = Crm(Path(os.environ["DATA_DIR"]))
    crm_seconds = int(os.environ.get("CRM_DELAY_MS", "250")) / 1000
    state = Path(os.environ["STATE_DIR"])
    bank = Bank(state / "ledger.jsonl", int(os.environ.get("BANK_CONFIRM_MS", "1000")) / 1000)
    inbox = Inbox(state / "inbox")

    @parsed
    async def find_customer(call: Call, value: dict) -> dict:
        email, shop = value["email"], call.claim.namespace
        log(call, email)
        await asyncio.sleep(crm_seconds)
        # The run acts for one shop: look among its customers only.
        if customer := crm.find_customer(shop, email):
            return customer
        data = {"code": "not_found", "didYouMean": crm.closest_email(shop, email)}
        raise ToolError(f"no customer {email}", data)

    @parsed
    async def list_orders(call: Call, value: dict) -> list[dict]:
        log(call, value["email"])
        await asyncio.sleep(crm_seconds)
        return crm.list_orders(call.claim.namespace, value["email"])

    @parsed
    async def find_order(call: Call, value: dict) -> dict:
        log(call, value["id"])
        if found := crm.find_order(call.claim.namespace, value["id"]):
            return found
        raise ToolError(f"no order {value['id']}", {"code": "not_found"})

    # May run again after a crash: the idempotency key, the same on every attempt, keeps it to one payment.
    @parsed
    async def refund(call: Call, value: dict) -> dict:
        log(call, value["order"])
        return await bank.refund(value["order"], value["cents"], key=call.claim.call_id)

    # Is declared at_most_once, because there is no key to give.
    @parsed
    async def charge(call: Call, value: dict) -> dict:
        log(call, value["order"])
        return await bank.charge(value["order"], value["cents"])

    @parsed
    async def find_transfers(call: Call, value: dict) -> list[dict]:
        log(call, value["order"])
        entries = (entry for entry in bank.ledger() if not entry.get("repeated"))
        return [entry for entry in entries if entry["order"] == value["order"]]

    @parsed
    async def ask_user(call: Call, value: dict) -> None:
        log(call, json.dumps(value["question"], ensure_ascii=False))
        run_id, seq = call.claim.call_id.split("/")
        name = f"q{seq}-{run_id[-4:]}"
        # Saved before anything can go wrong, shown once the token is good.
        token = call.new_token()
        inbox.save(name, to=call.claim.namespace, **value, token=token)
        await call.defer(token, timedelta(days=3))
        inbox.publish(name)
        # What is returned now is no answer: whoever holds the token answers.

    return {
        "crm.find_customer": find_customer,
        "crm.list_orders": list_orders,
        "crm.find_order": find_order,
        "bank.refund": refund,
        "bank.charge": charge,
        "bank.find_transfers": find_transfers,
        "ask_user": ask_user,
    }


def log(call: Call, what: str) -> None:
    claim = call.claim
    print(f"{claim.tool} {what}  (key {claim.call_id}, attempt {claim.attempt})", flush=True)
