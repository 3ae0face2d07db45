"""One stream on a connection of its own: frames, heartbeats, silence."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc

from trunkline.v1 import worker_pb2 as pb
from trunkline.v1.worker_pb2_grpc import WorkerServiceStub

from .outbox import CLAIM_ID_SIZE, Item
from .session import Held, Session

MAX_FRAME = 4 << 20  # the largest frame that either side sends, in bytes
FULL_FRAME = 256 << 10  # a frame is closed at this size, unless one item is larger
WELCOME_SECONDS = 10  # how long a stream may take from its opening to its welcome
GOAWAY_SLACK_SECONDS = 5  # how long after its deadline a stream is left that said goaway and did not end

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_FRAME),
    # Else channels to one address share a connection, so that one that is dead, or whose server leaves, would carry
    # the next stream as well (8, 9).
    ("grpc.use_local_subchannel_pool", 1),
]


class StreamEnded(Exception):
    """Why we gave a stream up, or that the server ended it without an error."""


class Stream:
    """One Work stream of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.opened_at = asyncio.get_running_loop().time()
        self.error: BaseException = StreamEnded("the server said goaway")
        self.left = asyncio.Event()  # the next stream is wanted: after a goaway, or at the end
        self.welcomed = asyncio.Event()
        self.wake = asyncio.Event()  # there may be something to send
        self.queue: deque[Item] = deque()
        self.named: set[str] = set()  # claims that its hello named
        self.grant = 0
        self.greeted = False  # its hello was made
        self.beat_due = self.drain_due = False
        self.drained = self.closing = False
        self.heard = False
        self.replaced = False  # the server said goaway
        self.interval = 5.0  # seconds
        self.deadline = math.inf  # after a goaway

    async def run(self, connect: Callable[..., grpc.aio.Channel], metadata: list[tuple[str, str]]) -> None:
        """Talks until the stream ends, and closes its connection."""
        try:
            async with connect(options=CHANNEL_OPTIONS) as channel:
                error = await self._talk(WorkerServiceStub(channel).Work(metadata=metadata))
            # Its traceback would keep the call, and that the connection: gRPC closes it with the last of its objects.
            self.error = error.with_traceback(None)
        finally:
            self.session.ended(self)

    async def _talk(self, rpc: Any) -> BaseException:
        # No TaskGroup: in Python 3.11 and 3.12 one that fails leaves a cycle, which keeps the connection in the same
        # way until the garbage is collected.
        parts = [asyncio.create_task(part) for part in (self._read(rpc), self._write(rpc), self._watch())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_EXCEPTION)
            return next(error for part in ended if (error := part.exception()))
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)

    async def _read(self, rpc: Any) -> None:
        async for frame in rpc:
            self.heard = True
            if frame.HasField("welcome"):
                self.interval = frame.welcome.heartbeat_interval.ToTimedelta().total_seconds() or self.interval
            if frame.HasField("goaway"):
                left = frame.goaway.deadline.ToTimedelta().total_seconds() + GOAWAY_SLACK_SECONDS
                self.deadline = asyncio.get_running_loop().time() + left
            self.session.apply(self, frame)
        raise StreamEnded("the server ended the stream")

    async def _write(self, rpc: Any) -> None:
        """Sends whatever is ready, frame by frame; more gathers while one is being sent."""
        while True:
            self.wake.clear()
            frame, accepted = self.next_frame()
            try:
                if frame:
                    await rpc.write(frame)
                    # Only now, when their acceptance is on its way, may handlers start (2).
                    self.session.accepted(accepted)
                elif self.closing:
                    await rpc.done_writing()
                    return
                else:
                    await self.wake.wait()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the reader is told why

    def next_frame(self) -> tuple[pb.WorkRequest | None, list[Held]]:
        """Makes the next frame, None when there is nothing to say; and says which claims it accepts."""
        if not self.greeted:
            self.greeted = True
            return pb.WorkRequest(hello=self.session.hello(self)), []
        frame = pb.WorkRequest(grant=self.grant)
        self.grant = 0
        accepted = self._fill(frame) if self.welcomed.is_set() else []  # until then grants only (1)
        return (frame if frame.ByteSize() else None), accepted

    def _fill(self, frame: pb.WorkRequest) -> list[Held]:
        """Moves what is ready into a frame, up to its size."""
        held, size = self.session.held, 0
        if self.beat_due:
            self.beat_due = False
            frame.heartbeat.claims.extend(held)
            frame.heartbeat.SetInParent()  # also when it names none (4)
            size = len(held) * CLAIM_ID_SIZE
        while self.queue and (not size or size + self.queue[0].size <= FULL_FRAME):
            item = self.queue.popleft()
            item.put(frame)
            size += item.size
        if self.drain_due and not self.queue:  # what was to be said before it goes first
            self.drain_due = False
            frame.drain.SetInParent()
        return [held[claim_id] for claim_id in frame.accepted if claim_id in held]

    async def _watch(self) -> None:
        """Makes a heartbeat due in every interval, and gives a connection up on which nothing was heard for three."""
        try:
            await asyncio.wait_for(self.welcomed.wait(), WELCOME_SECONDS)
        except TimeoutError:
            raise StreamEnded("the server gave no welcome") from None
        loop, silent = asyncio.get_running_loop(), 0
        # Ticks are counted, not time: a process that stood still itself has had no chance to hear anything.
        while silent < 3:
            await asyncio.sleep(self.interval)
            if loop.time() > self.deadline:
                raise StreamEnded("the server said goaway and did not end the stream")
            self.beat_due = self is self.session.active
            # A stream that was replaced gets no heartbeat, and so has no ack to send: its deadline bounds it (9).
            silent = 0 if self.heard or (self.replaced and not self.beat_due) else silent + 1
            self.heard = False
            self.wake.set()
        raise StreamEnded("the server was silent for three heartbeat intervals")
