from trunkline_worker.backoff import Backoff


def test_pauses_keep_to_their_limits_and_spread():
    young, old = [], []
    for _ in range(200):
        backoff = Backoff()
        young += [backoff.next(1000) for _ in range(20)]
        old += [backoff.next(1010) for _ in range(20)]
    assert 1 < max(young) <= 2 and min(young) < 0.5
    assert 4 < max(old) <= 8 and min(old) < 2
