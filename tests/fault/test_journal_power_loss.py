"""Promise 1 and 4 of the journal: committed records survive power loss at every operation of the disk."""

import pytest

from tests.effort import seeds
from tests.support.journal_history import History

SEEDS = seeds(test=4, soak=120)
LONG_LIVES = [1000 + seed for seed in seeds(test=2, soak=400)]


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
    lives = {History(seed, cut=False): 400 for seed in range(4)} | {History(4): 30}
    for history, steps in lives.items():
        history.live(steps)
    seen = set().union(*(history.seen for history in lives))
    assert {"shed", "thinned", "journal full", "unfinished", "torn tail", "power loss", "kill", "reused file"} <= seen
