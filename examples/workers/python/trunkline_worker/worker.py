"""A worker: a stream after the other, for ever."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

import grpc

from .backoff import Backoff
from .call import Handler
from .session import Session
from .stream import Stream

log = logging.getLogger(__name__)

# A stream that asked to be replaced this soon is replaced with a pause, or both sides would go round in circles.
YOUNG_SECONDS = 1

FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class KeyRefused(Exception):
    """The server refuses the key, and will refuse it the next time."""


class Worker:
    """Runs tools for a server: `url` is http://HOST:PORT or https://HOST:PORT, `key` its key, if it wants one, `name`
    for people, `slots` how many handlers run at once. To be used by one event loop, once."""

    def __init__(
        self, url: str, tools: Mapping[str, Handler], *, key: str = "", name: str = "", slots: int = 10
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.port is None:
            raise ValueError(f"url is {url!r}; allowed are http://HOST:PORT and https://HOST:PORT")
        if not 1 <= slots <= 10_000:
            raise ValueError(f"slots is {slots}; allowed are 1 to 10,000")
        target = f"dns:///{parts.netloc}"
        if parts.scheme == "https":
            self._connect = partial(grpc.aio.secure_channel, target, grpc.ssl_channel_credentials())
        else:
            self._connect = partial(grpc.aio.insecure_channel, target)
        self._metadata = [("authorization", f"Bearer {key}")] if key else []
        self._session = Session(name, slots, tools)

    def drain(self) -> None:
        """Takes no further call, and lets `run` return when what runs has been answered, however long that takes."""
        self._session.drain()

    async def run(self) -> None:
        """Works until it has drained. Raises KeyRefused; everything else is waited out. When it is cancelled, its
        handlers are as well, and what was not acknowledged is left to the server."""
        session, backoff = self._session, Backoff()
        streams: set[asyncio.Task[None]] = set()
        try:
            while not session.done.is_set():
                stream = Stream(session)
                session.opened(stream)
                task = asyncio.create_task(stream.run(self._connect, self._metadata))
                streams.add(task)
                task.add_done_callback(streams.discard)
                await stream.left.wait()
                if isinstance(stream.error, grpc.aio.AioRpcError) and stream.error.code() in FINAL:
                    raise KeyRefused(describe(stream.error)) from stream.error
                if stream.welcomed.is_set():
                    backoff = Backoff()
                if not session.done.is_set():
                    await self._pause(stream, backoff)
        finally:
            for running in (*streams, *session.handlers):
                running.cancel()

    async def _pause(self, stream: Stream, backoff: Backoff) -> None:
        now = asyncio.get_running_loop().time()
        if stream.replaced and now - stream.opened_at > YOUNG_SECONDS:
            return
        seconds = backoff.next(now)
        log.warning("no stream: %s; next try in %.1f s", describe(stream.error), seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._session.done.wait()


def describe(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"
