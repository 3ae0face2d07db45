"""The claims a worker holds, its slots, and what the server says about them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trunkline.v1 import problem_pb2 as problem
from trunkline.v1 import worker_pb2 as pb

from .call import Call, DeferralRefused, Handler, ToolError, answer_to
from .outbox import CLAIM_ID_SIZE, ITEM_SIZE, Item, Outbox

if TYPE_CHECKING:
    from .stream import Stream

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Held:
    """A claim from its receipt to the ack of what became of it."""

    claim: pb.Claim
    told: bool = False  # the server was told of its acceptance
    confirmed: bool = False  # the acceptance of a `confirm` claim is stored
    over: bool = False  # its handler has ended, or will never start
    handler: asyncio.Task[str | None] | None = None
    deferred: asyncio.Future[None] | None = None  # what becomes of its deferral


class Session:
    """This process as the server knows it, across streams. It is used by one event loop, and changes between two
    awaits only, so it needs no locks."""

    def __init__(self, name: str, slots: int, tools: Mapping[str, Handler]) -> None:
        self.name, self.slots, self.tools = name, slots, tools
        self.id, self.nonce = secrets.token_hex(16), secrets.token_hex(16)
        self.max_result = 1 << 20  # bytes, until the server announces it
        self.held: dict[str, Held] = {}  # by claim id
        self.outbox = Outbox()
        self.free = slots
        self.hellos = 0
        self.draining = False
        self.done = asyncio.Event()  # it has drained
        self.newest: Stream | None = None  # the one opened last, unless it has ended or said goaway
        self.active: Stream | None = None  # the last that was welcomed, unless it has ended
        self.handlers: set[asyncio.Task[str | None]] = set()  # the event loop keeps no task alive

    def opened(self, stream: Stream) -> None:
        self.newest = stream
        self._changed()

    def ended(self, stream: Stream) -> None:
        if self.active is stream:
            self.active = None
        if self.newest is stream:
            self.newest = None
        stream.left.set()
        self._changed()

    def hello(self, stream: Stream) -> pb.Hello:
        """Says who is here and what it holds, at the moment when it is sent (1)."""
        self.hellos += 1
        stream.named = set(self.held)
        return pb.Hello(
            session_id=self.id,
            nonce=self.nonce,
            worker=self.name,
            sdk="trunkline-example-python",
            tools=sorted(self.tools),
            slots=0 if self.draining else self.free,
            claims=[pb.HeldClaim(claim_id=i, call_id=h.claim.call_id) for i, h in self.held.items()],
            number=self.hellos,
        )

    def apply(self, stream: Stream, frame: pb.WorkResponse) -> None:
        """Does what a frame says, in the order of its fields. Those of a newer server fall through."""
        if frame.HasField("welcome") and not stream.welcomed.is_set():
            self._welcome(stream, frame.welcome)
        for claim in frame.claims:
            self._receive(stream, claim)
        for claim_id in frame.confirmed:
            self._confirm(claim_id)
        for ack in frame.acks:
            self._acknowledge(ack)
        for revocation in frame.revoked:
            self._lose(revocation.claim_id, _name(pb.RevokeReason, revocation.reason))
        for claim_id in frame.heartbeat_ack.lost:
            self._lose(claim_id, "the server does not hold it any more")
        if frame.HasField("drained"):
            stream.drained = True
        if frame.HasField("goaway"):
            stream.replaced = True
            if self.newest is stream:
                self.newest = None
            stream.left.set()
        self._changed()

    def accepted(self, claims: Iterable[Held]) -> None:
        """The server was told that these are accepted, so their handlers may start (2)."""
        for held in claims:
            held.told = True
            self._start(held)

    async def defer(self, held: Held, deferral: pb.Deferral) -> None:
        claim_id = deferral.claim_id
        if self.held.get(claim_id) is not held or held.over or claim_id in self.outbox:
            raise DeferralRefused("the claim is lost, or was deferred")
        held.deferred = asyncio.get_running_loop().create_future()
        self._say(Item(claim_id, "deferrals", deferral, ITEM_SIZE))
        self._changed()
        await held.deferred

    def drain(self) -> None:
        """Takes no further claim, and hands back those whose handlers have not started (7)."""
        self.draining = True
        for held in self.held.values():
            if held.handler is None and not held.over:
                self._release(held)
        if self.active:
            self.active.drain_due = True
        self._changed()

    def _changed(self) -> None:
        """Looks whether the session may end, and lets the writers look for something to send."""
        if self.draining and not self.held and self.free == self.slots:
            if not self.active and not self.newest:
                self.done.set()  # nothing is left to say, and nobody listens
            elif self.active and self.active.drained:
                self.active.closing = True
        for stream in (self.active, self.newest):
            if stream:
                stream.wake.set()

    def _welcome(self, stream: Stream, welcome: pb.Welcome) -> None:
        """Makes this the stream to talk on. What the one before has not sent is said here."""
        if self.active:
            self.active.queue.clear()
        self.active = stream
        stream.welcomed.set()
        self.max_result = welcome.max_result_bytes or self.max_result
        for verdict in welcome.verdicts:
            match verdict.standing:
                case pb.ClaimVerdict.STANDING_CONFIRMED:
                    self._confirm(verdict.claim_id)
                case (
                    pb.ClaimVerdict.STANDING_DEFERRED
                    | pb.ClaimVerdict.STANDING_ANSWERED
                    | pb.ClaimVerdict.STANDING_LOST as standing
                ):
                    self._lose(verdict.claim_id, _name(pb.ClaimVerdict.Standing, standing))
                case _:
                    pass  # kept; where that is wrong, the next heartbeat_ack says so
        stream.queue.extend(self.outbox)
        for claim_id, held in self.held.items():
            if claim_id in stream.named:
                self.accepted([held])  # to name it was to accept it
            elif claim_id not in self.outbox:
                self._accept(held)  # it came on the stream before, after this one's hello
        stream.drain_due = self.draining

    def _receive(self, stream: Stream, claim: pb.Claim) -> None:
        """Takes a claim, and one slot for it (2)."""
        if claim.claim_id in self.held:
            if stream is self.newest and not self.draining:
                stream.grant += 1  # sent again, it took credit but takes no slot (3)
            return
        held = self.held[claim.claim_id] = Held(claim)
        self.free -= 1
        if self.draining or claim.tool not in self.tools:
            self._release(held)
        else:
            self._accept(held)

    def _accept(self, held: Held) -> None:
        if self.active:
            self.active.queue.append(Item(held.claim.claim_id, "accepted", held.claim.claim_id, CLAIM_ID_SIZE))

    def _confirm(self, claim_id: str) -> None:
        if held := self.held.get(claim_id):
            held.told = held.confirmed = True
            self._start(held)

    def _start(self, held: Held) -> None:
        """Starts the handler of a claim, once, as soon as it may."""
        if not held.told or (held.claim.confirm and not held.confirmed) or held.handler or held.over:
            return
        held.handler = asyncio.create_task(self._handle(held), name=held.claim.call_id)
        self.handlers.add(held.handler)
        # Not in `_handle`: a task that is cancelled before its first step never enters its coroutine.
        held.handler.add_done_callback(partial(self._finished, held))

    async def _handle(self, held: Held) -> str | None:
        return await self.tools[held.claim.tool](Call(self, held))

    def _finished(self, held: Held, handler: asyncio.Task[str | None]) -> None:
        """Answers, and frees the slot."""
        self.handlers.discard(handler)
        error = None if handler.cancelled() else handler.exception()
        if error and not isinstance(error, ToolError):
            log.error("the handler of call %s raised", held.claim.call_id, exc_info=error)
        claim_id = held.claim.claim_id
        if self.held.get(claim_id) is held:  # not when the claim was lost, or deferred
            answer = answer_to(held.claim, handler, self.max_result)
            self._say(Item(claim_id, "answers", answer, answer.ByteSize() + ITEM_SIZE))
        self._free_slot(held)
        self._changed()

    def _say(self, item: Item) -> None:
        """Keeps an item until its ack, and sends it where there is a stream; if not, the next welcome does (5)."""
        if self.outbox.put(item) and self.active:
            self.active.queue.append(item)

    def _release(self, held: Held) -> None:
        """Hands back a claim whose handler has not started."""
        self._say(Item(held.claim.claim_id, "releases", held.claim.claim_id, CLAIM_ID_SIZE))
        self._free_slot(held)

    def _free_slot(self, held: Held) -> None:
        """Notes that no handler runs for a claim any more, and passes its slot on (3)."""
        held.over = True
        self.free += 1
        if self.newest and self.newest.greeted and not self.draining:
            self.newest.grant += 1  # before the hello it is counted there

    def _lose(self, claim_id: str, why: str) -> None:
        """Drops a claim that ended without our doing. One in the outbox waits for its ack, which alone counts (6)."""
        if claim_id not in self.held or claim_id in self.outbox:
            return
        held = self.held.pop(claim_id)
        log.info("call %s: claim lost: %s", held.claim.call_id, why)
        if held.handler:
            held.handler.cancel(why)
        else:
            self._free_slot(held)

    def _acknowledge(self, ack: pb.Ack) -> None:
        """Is done with an item, and with its claim. Only a refused deferral leaves the claim with its handler, which
        has yet to answer."""
        item, held = self.outbox.take(ack.claim_id), self.held.get(ack.claim_id)
        if not item or not held:
            return
        refusal = None
        if ack.HasField("problem"):
            refusal = f"{_name(problem.Reason, ack.problem.reason)}: {ack.problem.message}"
            log.warning("call %s: refused: %s", held.claim.call_id, refusal)
        if item.field != "deferrals" or not refusal or held.over:
            del self.held[ack.claim_id]
        if held.deferred and not held.deferred.done():  # done: its handler does not wait for it any more
            if refusal:
                held.deferred.set_exception(DeferralRefused(refusal))
            else:
                held.deferred.set_result(None)


def _name(enum: Any, number: int) -> str:
    return enum.Name(number) if number in enum.values() else str(number)  # a newer server's has no name here
