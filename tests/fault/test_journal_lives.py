"""Promises 1, 4 and 5 of the journal, over many lives on a disk that fails; see `tests/support/journal_lives.py`."""

import contextlib
import copy
import errno
import itertools
from collections import Counter

import pytest

from agent.journal import JournalSettings
from tests.effort import seeds
from tests.support.journal_lives import JournalLives, KilledError, PowerLossError, live
from tests.support.simulated_disk import Fault

SEGMENT_BYTES = 9 * 4096
IMPORTANT, UNIMPORTANT = 0, 7
PROFILES = (
    None,  # drawn
    frozenset({"faults"}),
    frozenset({"receipts away"}),
    frozenset({"maintenance", "settings"}),
    frozenset({"maintenance", "repair", "rot", "room"}),
)


@pytest.mark.parametrize("profile", PROFILES, ids=["drawn", "faults", "receipts away", "thinning", "repair"])
def test_whatever_happens_in_many_lives_nothing_is_lost_invented_or_counted_twice(
    profile: frozenset[str] | None,
) -> None:
    for seed in seeds(test=3, soak=2000):
        live(seed, 150, profile)


def test_journals_on_copies_of_one_disk_never_use_one_number_for_two_losses() -> None:
    """A cloned card, or one restored from a backup: each copy goes on, and loses other records."""
    for seed in seeds(test=3, soak=500):
        one, other = JournalLives(seed, frozenset()), JournalLives(seed + 1_000_000, frozenset())
        one.live(40)
        other.disk, other.settings = one.disk.after_kill(), one.settings
        other.oracle = copy.deepcopy(one.oracle)
        other.open()
        one.live(150)
        other.live(150)
        ours, theirs = one.oracle.reported, other.oracle.reported
        assert [number for number in ours.keys() & theirs.keys() if ours[number] != theirs[number]] == []


@pytest.mark.slow
def test_these_lives_meet_every_harm() -> None:
    """What the lives above never do, they cannot prove."""
    seen: Counter[str] = Counter()
    for seed, profile in enumerate((*PROFILES, frozenset({"reads", "rot", "repair"})) * 4):
        seen.update(live(seed, 200, profile))
    losses = {"shed", "thinned", "journal full", "damaged", "unfinished"}
    harms = losses | {"power loss", "kill", "commit refused", "maintenance interrupted", "advance"}
    failures = {"failed sync", "failed write", "failed read", "crash in opening", "crash in repair", "repair"}
    assert harms | failures <= set(seen)


def _settings(segments: int, thinned: frozenset[int] = frozenset()) -> JournalSettings:
    sizes = JournalSettings(segment_bytes=SEGMENT_BYTES, max_bytes=4 << 20)
    return JournalSettings(
        segment_bytes=SEGMENT_BYTES,
        max_bytes=2 * sizes.state_bytes + segments * SEGMENT_BYTES,
        cursors=("publisher", "archiver"),
        compression="none",
        thinned_lanes=thinned,
    )


def _lives(settings: JournalSettings, seed: int = 1) -> JournalLives:
    lives = JournalLives(seed, frozenset())
    lives.disk.files.clear()
    lives.settings = settings
    lives.restart()
    return lives


def _write(lives: JournalLives, commits: int, lane: int | None = None) -> None:
    for _ in range(commits):
        lives.append(lane)
        lives.commit()


def _live_on(lives: JournalLives) -> None:
    """Begin segments of a lane with lower positions, and open each again before it is full."""
    for _ in range(8):
        _write(lives, 1, IMPORTANT)
        lives.restart()


def _was_interrupted(lives: JournalLives) -> bool:
    """Whether so many operations were done that it crashed; then as a killed process leaves it."""
    if lives.crash_in:
        lives.crash_in = 0
        return False
    lives.leave_disk(KilledError())
    return True


@pytest.mark.slow
def test_a_repair_interrupted_at_any_operation_leaves_nothing_that_later_lives_take_for_their_own() -> None:
    for crash_at in itertools.count(1):
        lives = _lives(_settings(20), seed=crash_at)
        _write(lives, 1, IMPORTANT)
        _write(lives, 40, UNIMPORTANT)
        lives.leave_disk(KilledError())
        lives.rot()
        lives.crash_in = crash_at
        with contextlib.suppress(KilledError, PowerLossError):
            lives._repair()
        if not _was_interrupted(lives):
            break
        lives.open()
        _live_on(lives)
    assert crash_at > 10


@pytest.mark.slow
def test_thinning_interrupted_at_any_operation_leaves_nothing_that_later_lives_take_for_their_own() -> None:
    for crash_at in itertools.count(1):
        lives = _lives(_settings(5, frozenset({3, 7})))
        thinned = _write_until_thinned(lives, crash_at)
        if not thinned:
            break
        lives.leave_disk(KilledError())
        lives.settings = _settings(5)
        lives.open()
        for _ in range(30):
            lives.read()  # the backlog is delivered, and segments are released
        lives.restart()
        _live_on(lives)
    assert crash_at > 4


def _write_until_thinned(lives: JournalLives, crash_at: int) -> bool:
    """Crash at an operation after the first block that thinning wrote. False if there were not so many."""
    rewritten = False

    def note(name: str, data: bytes) -> None:
        nonlocal rewritten
        if name.endswith(".segment") and data[7] == 1 and not rewritten:
            rewritten, lives.crash_in = True, crash_at

    lives.disk.after_write = note
    for number in range(200):
        try:
            _write(lives, 1, UNIMPORTANT if number else IMPORTANT)
        except (KilledError, PowerLossError):
            return True
        if rewritten and crash_at > 12:
            return False
    return False


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["sync", "write"])
def test_after_a_failed_operation_and_a_restart_nothing_is_believed_that_only_the_page_cache_has(
    operation: str,
) -> None:
    """The sync of any file, segment or state: the next process must not take a later one for it."""
    for fail_at in itertools.count(1):
        lives = _lives(_settings(6), seed=fail_at)
        lives.disk.fault = _fail_once(operation, fail_at)
        refused = lives.seen["commit refused"]
        for _ in range(60):
            try:
                _write(lives, 1)
            except KilledError:
                break
            if lives.seen["commit refused"] > refused:
                break
        else:
            break
        lives._calm_down()
        lives.leave_disk(KilledError())
        lives.open()
        _write(lives, 3)
        lives.leave_disk(PowerLossError())
        lives.open()
    assert fail_at > 40


def _fail_once(operation: str, at: int) -> Fault:
    count = itertools.count(1)
    return lambda each, _name: errno.EIO if each == operation and next(count) == at else None
