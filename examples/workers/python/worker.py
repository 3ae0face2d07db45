"""A worker with the tools that `npx trunkline conformance` calls: start from it, and put yours in their place."""

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

from trunkline_worker import Call, Handler, KeyRefused, ToolError, Worker, parsed


async def echo(call: Call) -> str:
    return call.claim.input_json  # never parsed, so that no digit is lost


@parsed
async def fail(_call: Call, value: dict) -> None:
    raise ToolError(value["message"], value.get("data"), retryable=value.get("retryable", False))


@parsed
async def crash(_call: Call, value: dict) -> None:
    raise RuntimeError(value["message"])


@parsed
async def sleep(call: Call, value: dict) -> dict:
    try:
        await asyncio.sleep(value["ms"] / 1000)
    except asyncio.CancelledError:
        print("stopped", call.claim.call_id, flush=True)
        raise
    return {"slept": True}


@parsed
async def defer(call: Call, value: dict) -> None:
    token = call.new_token()  # a real tool stores it here, before anything can go wrong
    ms = value.get("timeout_ms", 0)
    await call.defer(token, timedelta(milliseconds=ms) if ms else None)
    print("token", token, flush=True)  # and publishes it here, where it is good


@parsed
async def big(_call: Call, value: dict) -> str:
    return "x" * value["bytes"]


def announced(handler: Handler) -> Handler:
    async def announce(call: Call) -> str | None:
        print("started", call.claim.call_id, call.claim.attempt, flush=True)
        return await handler(call)

    return announce


async def main() -> None:
    tools = {tool.__name__: announced(tool) for tool in (echo, fail, crash, sleep, defer, big)}
    worker = Worker(
        os.environ.get("TRUNKLINE_URL") or "http://127.0.0.1:7788",
        tools,
        key=os.environ.get("TRUNKLINE_KEY", ""),
        name=os.environ.get("TRUNKLINE_WORKER") or "python",
        slots=int(os.environ.get("TRUNKLINE_CONCURRENCY") or 10),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.drain)
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(main())
    except (KeyRefused, ValueError) as error:
        sys.exit(f"the worker has ended: {error}")
