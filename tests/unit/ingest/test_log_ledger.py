from typing import Any

import pytest

from ingest.device_logs import LogAccount, LogName
from ingest.log_ledger import ARCHIVE_MISSING, LogLedger, make_log_ledger, missing_places
from protocol.devicelog.checkpoint import LaneState
from protocol.devicelog.entry import LaneRange
from protocol.losses import Cause, Loss
from tests.support.device_logs import checkpoint, log_entry

DEVICE, JOURNAL, LANE = "0xab", "7c", 4
LOG = LogName(DEVICE, "01")


def _account(*numbers: int, lost: int = 0, size: int = 4) -> LogAccount:
    """A log of archives with ten positions each, of which some arrived; the checkpoint covers `size` of them."""
    account = LogAccount()
    for number in numbers:
        entry = log_entry(number, lanes=(LaneRange(LANE, 0, 10 * number, 10 * number + 10),))
        account.add_archive(entry, {LANE: 10 - lost}, number, JOURNAL)
    lane = LaneState(LANE, 0, 10 * size + 5, 10 * size, 10 * size, 0)
    account.add_checkpoint(checkpoint(size, lanes=(lane,)), 9)
    return account


def _loss(first: int, last: int, count: int, number: int = 1) -> dict[tuple[str, str, int], Loss]:
    loss = Loss(
        number=number, lane=LANE, chain="", first_position=first, last_position=last, count=count,
        first=None, last=None, cause=Cause.SHED,
    )  # fmt: skip
    return {(DEVICE, JOURNAL, number): loss}


def _ledger(account: LogAccount, losses: dict[tuple[str, str, int], Loss] | None = None) -> LogLedger:
    return make_log_ledger({LOG: account}, losses or {})


def _figures(ledger: LogLedger) -> dict[str, Any]:
    (row,) = ledger.rows
    names = ("produced", "arrived", "lost_explained", "lost_unexplained", "missing", "on_device", "complete")
    return {name: row[name] for name in names}


def test_a_log_of_which_everything_arrived_is_complete() -> None:
    ledger = _ledger(_account(0, 1, 2, 3))
    assert _figures(ledger) == {
        "produced": 45, "arrived": 40, "lost_explained": 0, "lost_unexplained": 0, "missing": 0, "on_device": 5,
        "complete": True,
    }  # fmt: skip
    assert ledger.gaps == []
    assert ledger.rows[0]["missing_archives"] is None


@pytest.mark.parametrize(
    ("numbers", "missing_archives", "gaps"),
    [
        ((1, 2, 3), "0", [(0, 10)]),
        ((0, 3), "1-2", [(10, 30)]),
        ((0, 2), "1, 3", [(10, 20), (30, 40)]),
        ((0, 1, 2), "3", [(30, 40)]),
        ((), "0-3", [(0, 40)]),
    ],
)
def test_missing_archives_are_gaps_with_their_positions(
    numbers: tuple[int, ...], missing_archives: str, gaps: list[tuple[int, int]]
) -> None:
    ledger = _ledger(_account(*numbers))
    assert [(gap["first_position"], gap["next_position"]) for gap in ledger.gaps] == gaps
    assert all(gap["missing"] == gap["next_position"] - gap["first_position"] for gap in ledger.gaps)
    assert {gap["cause"] for gap in ledger.gaps} == {ARCHIVE_MISSING}
    (row,) = ledger.rows
    assert (row["missing_archives"], row["complete"]) == (missing_archives, False)
    assert row["missing"] == sum(end - first for first, end in gaps)
    assert row["produced"] == 45
    assert sum(missing_places({LOG: _account(*numbers)})[DEVICE, JOURNAL if numbers else "", LANE], ()) == sum(gaps, ())


@pytest.mark.parametrize(("reported", "unexplained"), [(0, 4), (3, 1), (4, 0), (9, 0)])
def test_a_reported_loss_explains_no_more_than_it_counts(reported: int, unexplained: int) -> None:
    losses = _loss(0, 39, reported) if reported else {}
    figures = _figures(_ledger(_account(0, 1, 2, 3, lost=1), losses))
    assert (figures["lost_explained"], figures["lost_unexplained"]) == (4 - unexplained, unexplained)
    assert figures["complete"] == (not unexplained)


def test_a_loss_within_a_missing_archive_is_lost_and_not_missing() -> None:
    figures = _figures(_ledger(_account(0, 2, 3), _loss(12, 15, 4)))
    assert (figures["lost_explained"], figures["missing"]) == (4, 6)
    figures = _figures(_ledger(_account(0, 2, 3), _loss(8, 15, 4)))
    assert (figures["lost_explained"], figures["missing"]) == (0, 10), "some of it may have been in an archive"


def test_a_forked_log_is_not_complete() -> None:
    account = _account(0, 1, 2, 3)
    account.is_forked = True
    assert not _figures(_ledger(account))["complete"]
