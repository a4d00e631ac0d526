from typing import Any

import pytest

from ingest.totals import Totals, add_up

LEDGER = {"archived": 12, "ingested": 9, "duplicate": 2, "quarantined": 1, "balanced": True}
LOG = {"lost_explained": 3, "lost_unexplained": 0, "missing": 0, "on_device": 4, "complete": True}
GAP = {"state": "open", "log": None, "cause": None, "missing": 5, "explained": 5, "held": 0}


def _totals(
    *, ledger: dict[str, Any] | None = None, log: dict[str, Any] | None = None, gap: dict[str, Any] | None = None
) -> Totals:
    return add_up(
        ledger=[LEDGER, {**LEDGER, **(ledger or {})}], logs=[LOG, {**LOG, **(log or {})}], gaps=[{**GAP, **(gap or {})}]
    )


def test_everything_produced_is_somewhere() -> None:
    assert _totals() == Totals(
        produced=34, archived=24, ingested=18, duplicate=4, quarantined=2, lost_explained=6, lost_unexplained=0,
        missing=0, on_device=8, complete=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"ledger": {"balanced": False}},
        {"log": {"missing": 2, "complete": False}},
        {"log": {"lost_unexplained": 1, "complete": False}},
        {"log": {"complete": False}},
        {"gap": {"explained": 4}},
        {"gap": {"missing": None, "explained": 0}},
    ],
)
def test_whatever_is_not_accounted_for_makes_it_incomplete(change: dict[str, Any]) -> None:
    totals = _totals(**change)
    assert not totals.complete
    assert totals.as_line().startswith("NOT COMPLETE (readings): produced ")
    balance = totals.ingested + totals.quarantined + totals.lost_explained + totals.lost_unexplained
    assert totals.produced == balance + totals.missing + totals.on_device


@pytest.mark.parametrize(
    "gap",
    [
        {"explained": 0, "cause": "shed, archive missing"},
        {"explained": 0, "log": "7c"},
        {"explained": 0, "state": "closed"},
        {"explained": 2, "held": 3},
    ],
)
def test_a_gap_in_a_chain_counts_once_and_only_while_it_is_open(gap: dict[str, Any]) -> None:
    assert _totals(gap=gap).lost_unexplained == 0
