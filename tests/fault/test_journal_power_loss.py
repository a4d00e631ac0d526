"""Promise 1 and 4 of the journal: committed records survive power loss at every operation of the disk."""

import pytest

from tests.fault.journal_history import History

SEEDS = range(12)
LONG_LIVES = range(1000, 1040)


@pytest.mark.parametrize("seed", SEEDS)
def test_committed_records_survive_power_loss_before_every_operation(seed: int) -> None:
    history = History(seed)
    history.live(steps=100)
    assert history.cuts > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_LIVES)
def test_committed_records_survive_power_loss_throughout_a_long_life(seed: int) -> None:
    history = History(seed)
    history.live_until(cuts=800)


def test_these_lives_shed_thin_rotate_and_tear() -> None:
    """What the histories above never do, they cannot prove."""
    histories = [History(seed, cut=False) for seed in range(4)]
    for history in histories:
        history.live(steps=500)
    seen = set().union(*(history.seen for history in histories))
    assert {"shed", "thinned", "no room", "torn tail", "power loss", "kill", "reused file"} <= seen
