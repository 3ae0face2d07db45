"""Runs a part of the demo's tools: `python -m demo shop NAME` or `python -m demo reports NAME`."""

import asyncio
import logging
import os
import signal
import sys

from trunkline_worker import KeyRefused, Worker

from . import reports, shop

PARTS = {"shop": shop.tools, "reports": reports.tools}


async def main(part: str, name: str) -> None:
    worker = Worker(os.environ["TRUNKLINE_URL"], PARTS[part](), name=name)
    print(f"{name} takes calls", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.drain)
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if len(sys.argv) != 3 or sys.argv[1] not in PARTS:
        sys.exit(f"usage: python -m demo {'|'.join(PARTS)} NAME")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (KeyRefused, ValueError) as error:
        sys.exit(f"the worker has ended: {error}")
