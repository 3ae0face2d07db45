from trunkline.v1 import worker_pb2 as pb
from trunkline_worker.outbox import ITEM_SIZE, Item, Outbox


def item(claim_id: str, field: str = "answers") -> Item:
    value = {"answers": pb.Answer, "deferrals": pb.Deferral}[field](claim_id=claim_id)
    return Item(claim_id, field, value, ITEM_SIZE)


def test_items_are_kept_in_order_until_their_ack():
    outbox = Outbox()
    for claim_id in "cab":
        outbox.put(item(claim_id))
    assert outbox.take("a").claim_id == "a"
    assert [kept.claim_id for kept in outbox] == ["c", "b"]
    assert "a" not in outbox and "b" in outbox


def test_a_second_ack_is_taken_for_nothing():
    outbox = Outbox()
    outbox.put(item("a"))
    outbox.take("a")
    assert outbox.take("a") is None


def test_the_first_word_of_a_claim_is_kept():
    outbox = Outbox()
    assert outbox.put(item("a", "deferrals"))
    assert not outbox.put(item("a", "answers"))
    assert outbox.take("a").field == "deferrals"  # it may have been stored


def test_an_item_goes_into_the_field_of_a_frame_that_is_for_it():
    frame = pb.WorkRequest()
    item("a").put(frame)
    Item("b", "releases", "b", ITEM_SIZE).put(frame)
    assert [answer.claim_id for answer in frame.answers] == ["a"]
    assert frame.releases == ["b"]
