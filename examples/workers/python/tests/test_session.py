import asyncio
from functools import wraps

from trunkline.v1 import model_pb2 as model
from trunkline.v1 import worker_pb2 as pb
from trunkline_worker import ToolError
from trunkline_worker.outbox import ITEM_SIZE, Item
from trunkline_worker.session import Session
from trunkline_worker.stream import FULL_FRAME, Stream


def in_a_loop(test):
    @wraps(test)
    def run():
        asyncio.run(test())

    return run


def welcomed(session: Session, *verdicts: pb.ClaimVerdict) -> Stream:
    """A stream that nobody writes or reads: frames are taken by `sent`."""
    stream = Stream(session)
    session.opened(stream)
    stream.next_frame()  # the hello
    session.apply(stream, pb.WorkResponse(welcome=pb.Welcome(verdicts=verdicts)))
    return stream


def connected(handler) -> tuple[Session, Stream]:
    session = Session("test", 1, {"tool": handler})
    return session, welcomed(session)


def claims(*, confirm: bool = False) -> pb.WorkResponse:
    return pb.WorkResponse(claims=[pb.Claim(claim_id="c1", call_id="run/1", tool="tool", confirm=confirm)])


def sent(stream: Stream) -> pb.WorkRequest:
    """Takes the next frame as the writer does."""
    frame, accepted = stream.next_frame()
    assert frame, "there was nothing to send"
    stream.session.accepted(accepted)
    return frame


async def answered(session: Session, stream: Stream) -> pb.WorkRequest:
    while session.handlers:
        await asyncio.sleep(0)
    return sent(stream)


async def idle(_call) -> str:
    return "1"


@in_a_loop
async def test_a_handler_starts_once_and_not_before_its_confirmation():
    started, stopped = [], []

    async def handler(call):
        started.append(call.claim.call_id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(call.claim.call_id)
            raise

    session, stream = connected(handler)
    session.apply(stream, claims(confirm=True))
    assert sent(stream).accepted == ["c1"]
    await asyncio.sleep(0)
    assert started == []
    for _ in range(2):
        session.apply(stream, pb.WorkResponse(confirmed=["c1"]))
    session.apply(stream, claims(confirm=True))
    await asyncio.sleep(0)
    session.apply(stream, pb.WorkResponse(revoked=[pb.Revocation(claim_id="c1", reason=99)]))
    frame = await answered(session, stream)
    assert started == stopped == ["run/1"]
    assert not frame.answers
    assert frame.grant == 2  # the slot, and the credit that the second delivery took


@in_a_loop
async def test_a_claim_lost_before_its_handlers_first_step_frees_its_slot():
    session, stream = connected(idle)
    session.apply(stream, claims())
    sent(stream)
    session.apply(stream, pb.WorkResponse(revoked=[pb.Revocation(claim_id="c1")]))
    assert (await answered(session, stream)).grant == 1
    assert session.free == 1


@in_a_loop
async def test_an_answer_is_sent_again_after_a_reconnect_until_its_ack():
    session, first = connected(idle)
    session.apply(first, claims())
    sent(first)
    assert len((await answered(session, first)).answers) == 1
    session.apply(first, pb.WorkResponse(revoked=[pb.Revocation(claim_id="c1")]))
    session.ended(first)

    second = welcomed(session, pb.ClaimVerdict(claim_id="c1", standing=pb.ClaimVerdict.STANDING_LOST))
    assert second.named == {"c1"}
    assert [answer.result_json for answer in sent(second).answers] == ["1"]
    session.apply(second, pb.WorkResponse(acks=[pb.Ack(claim_id="c1")]))
    assert not session.held and not list(session.outbox)


async def outcome_of(handler) -> pb.Answer:
    session, stream = connected(handler)
    session.apply(stream, claims())
    sent(stream)
    return (await answered(session, stream)).answers[0]


@in_a_loop
async def test_what_cannot_be_sent_as_it_is_becomes_a_failure():
    async def half_surrogate(_call):
        return '"\ud800"'

    async def too_large(_call):
        return "é" * (1 << 19) + "1"

    async def no_text(_call):
        return {"not": "text"}

    async def too_much_data(_call):
        raise ToolError("no", "x" * (64 << 10))

    async def odd_message(_call):
        raise ToolError("\ud800" + "é" * 8192)

    assert (await outcome_of(half_surrogate)).failure.kind == model.FAILURE_KIND_INVALID_ANSWER
    assert (await outcome_of(too_large)).failure.kind == model.FAILURE_KIND_OVERSIZED
    assert (await outcome_of(no_text)).failure.kind == model.FAILURE_KIND_INVALID_ANSWER
    assert (await outcome_of(too_much_data)).failure.kind == model.FAILURE_KIND_OVERSIZED
    failure = (await outcome_of(odd_message)).failure
    assert failure.kind == model.FAILURE_KIND_TOOL and len(failure.message.encode()) <= 8192


@in_a_loop
async def test_a_frame_is_closed_at_256_kib_unless_one_item_is_larger():
    _, stream = connected(idle)
    for size in (100 << 10, 100 << 10, 100 << 10, 1 << 20, 10):
        stream.queue.append(Item("c1", "answers", pb.Answer(result_json="1" * size), size + ITEM_SIZE))
    frames = []
    while stream.queue:
        frames.append(sent(stream))
    assert [len(frame.answers) for frame in frames] == [2, 1, 1, 1]
    assert all(frame.ByteSize() <= FULL_FRAME or len(frame.answers) == 1 for frame in frames)


@in_a_loop
async def test_a_drain_hands_back_what_has_not_started_and_ends_when_nothing_is_left():
    session, stream = connected(idle)
    session.apply(stream, claims(confirm=True))
    sent(stream)
    session.drain()
    frame = sent(stream)
    assert frame.releases == ["c1"] and frame.HasField("drain") and not frame.grant
    session.apply(stream, pb.WorkResponse(acks=[pb.Ack(claim_id="c1")], drained=pb.Drained()))
    assert stream.closing
    session.ended(stream)
    assert session.done.is_set()
