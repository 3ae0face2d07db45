"""What a handler sees, and what becomes of what it returns or raises."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

from trunkline.v1 import model_pb2 as model
from trunkline.v1 import worker_pb2 as pb

if TYPE_CHECKING:
    from .session import Held, Session

# What a failure's message and data may have, in bytes. The server cuts the one, and refuses the other.
MAX_MESSAGE, MAX_DATA = 8 << 10, 64 << 10

Handler = Callable[["Call"], Awaitable[str | None]]
"""Runs one tool: it returns the result as JSON text, which the caller reads digit for digit, or raises. A ToolError
reaches the caller as it says, any other exception as a failure of kind EXCEPTION.

It is cancelled when its claim is lost; what it returns then does not count. A time limit of the call does not end it
from here: the server knows whether that is worth another attempt."""


class ToolError(Exception):
    """A failure that is meant for the caller. `retryable`: whether another attempt makes sense."""

    def __init__(self, message: str, data: Any = None, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.data_json = "" if data is None else json.dumps(data, allow_nan=False)
        self.retryable = retryable


class DeferralRefused(Exception):
    """The call was not handed over: unless its claim is lost, the handler has to answer."""


class Call:
    """What a handler works on. `claim.call_id` is the same on every attempt: pass it on as the idempotency key to
    whatever must not happen twice."""

    def __init__(self, session: Session, held: Held) -> None:
        self.claim: pb.Claim = held.claim
        self._session = session
        self._held = held

    def new_token(self) -> str:
        """A token with which whoever has it may answer the call later. Store it before `defer`, publish it after:
        until the deferral is stored it is refused."""
        return f"{self.claim.call_id}.{self.claim.attempt}.{secrets.token_urlsafe(32)}"

    async def defer(self, token: str, timeout: timedelta | None = None) -> None:
        """Hands the call over for a token of `new_token`, and returns when that is stored: the handler ends then,
        and what it returns is no answer. Without a timeout that of the call's policy holds."""
        deferral = pb.Deferral(
            claim_id=self.claim.claim_id, call_id=self.claim.call_id, secret=token.rpartition(".")[2]
        )
        if timeout is not None:
            deferral.timeout.FromTimedelta(timeout)
        await self._session.defer(self._held, deferral)


def parsed(handler: Callable[[Call, Any], Awaitable[Any]]) -> Handler:
    """Gives a handler its input as a Python value, and sends what it returns as JSON. Floats lose digits that way:
    a handler that passes numbers on gets and returns text instead."""

    @wraps(handler)
    async def with_text(call: Call) -> str:
        try:
            value = json.loads(call.claim.input_json)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"input: {error}") from error
        return json.dumps(await handler(call, value), allow_nan=False)

    return with_text


def answer_to(claim: pb.Claim, handler: asyncio.Task[str | None], max_bytes: int) -> pb.Answer:
    """Says how a handler ended. What could not be sent as it is becomes a failure: text that is not Unicode fits no
    frame, and an answer that is too large would be refused with its whole frame."""
    answer = pb.Answer(claim_id=claim.claim_id, call_id=claim.call_id)
    try:
        text = handler.result()
    except ToolError as error:
        size = len(error.data_json)  # it is ASCII
        if size > MAX_DATA:
            message = f"the failure's data has {size} bytes; allowed are {MAX_DATA} (of the failure: {error})"
            _fail(answer, model.FAILURE_KIND_OVERSIZED, message)
        else:
            _fail(answer, model.FAILURE_KIND_TOOL, str(error))
            answer.failure.data_json = error.data_json
        answer.failure.retryable = error.retryable
    except (Exception, asyncio.CancelledError) as error:
        _fail(answer, model.FAILURE_KIND_EXCEPTION, f"{type(error).__name__}: {error}")
    else:
        _succeed(answer, "null" if text is None else text, max_bytes)
    return answer


def _succeed(answer: pb.Answer, text: str, max_bytes: int) -> None:
    try:
        size = len(text.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        message = f"the handler returned what is no JSON text: {error}"
        _fail(answer, model.FAILURE_KIND_INVALID_ANSWER, message)
        return
    if size > max_bytes:
        message = f"the result has {size} bytes; allowed are {max_bytes}"
        _fail(answer, model.FAILURE_KIND_OVERSIZED, message)
        return
    answer.result_json = text


def _fail(answer: pb.Answer, kind: model.FailureKind, message: str) -> None:
    answer.failure.kind = kind
    answer.failure.message = message.encode(errors="replace")[:MAX_MESSAGE].decode(errors="ignore")
