"""What the server has yet to acknowledge."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trunkline.v1 import worker_pb2 as pb

# What the id of a claim takes in a frame, and an item beside its payload, in bytes.
CLAIM_ID_SIZE, ITEM_SIZE = 40, 200


@dataclass(frozen=True)
class Item:
    """One thing to say about a claim, in the field of a frame that is for it."""

    claim_id: str
    field: str  # accepted, deferrals, answers or releases
    value: Any
    size: int  # roughly, in bytes

    def put(self, frame: pb.WorkRequest) -> None:
        getattr(frame, self.field).append(self.value)


class Outbox:
    """Answers, deferrals and releases until they are acknowledged: one for each claim, oldest first."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def put(self, item: Item) -> bool:
        """Keeps an item. A claim that has one already keeps that one, which may have been stored."""
        return self._items.setdefault(item.claim_id, item) is item

    def take(self, claim_id: str) -> Item | None:
        """Removes the item that was acknowledged; None when that was done before."""
        return self._items.pop(claim_id, None)

    def __contains__(self, claim_id: str) -> bool:
        """Whether a claim waits for an ack: then nothing else that the server says of it counts."""
        return claim_id in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())
