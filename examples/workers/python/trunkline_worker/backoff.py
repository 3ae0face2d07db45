"""How long to wait before the next try."""

import random


class Backoff:
    """Spaces the tries of one outage: at most 2 s apart in its first ten seconds, then at most 8 s (8). The jitter
    is over the whole step, since a node that dies cuts all of its workers in the same moment."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._tries = 0

    def next(self, now: float) -> float:
        if self._since is None:
            self._since = now
        limit = 2.0 if now - self._since < 10 else 8.0
        step = min(limit, 0.5 * 2 ** min(self._tries, 4))
        self._tries += 1
        return random.uniform(0, step)
