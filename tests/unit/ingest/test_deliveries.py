import itertools
from pathlib import Path

import pytest

from ingest.account import Account, ChainName
from ingest.deliveries import Deliveries
from ingest.small_tables import archive_rows, write_rows
from ingest.spans import Span
from ingest.store import Change, Store
from ingest.summary import ArchiveSummary, ChainSummary, Locked


def summary(
    path: str, *, archive: str = "a1", verdict: str = "verified", locked: Locked | None = None
) -> ArchiveSummary:
    span = Span((1, 0), (3, 0), None)
    chains = {"boiler": ChainSummary(archived=3, valid=3, spans=[span])}
    return ArchiveSummary(
        archive=archive, path=path, landed_at_ms=0, size_bytes=1, device="0xd1", verdict=verdict, chains=chains,
        locked=locked,
    )  # fmt: skip


def stored(folder: Path, summaries: list[ArchiveSummary]) -> Deliveries:
    """What a run finds that starts on tables with these rows, each of a commit of its own."""
    with Store(folder) as store:
        for each in summaries:
            rows = write_rows("archives", archive_rows([each]), store.work("archives") / "all.parquet")
            store.commit(store.account(), {"archives": Change([rows])})
        return Deliveries.of(store)


def test_a_file_is_a_copy_once() -> None:
    deliveries = Deliveries()
    first, copy = summary("first.hga"), summary("copy.hga", verdict="known")
    assert deliveries.duplicates([first], [first]) == []
    deliveries.enter([first], [])
    assert deliveries.duplicates([summary("first.hga", verdict="known")], []) == []
    assert deliveries.duplicates([copy], []) == [copy]
    deliveries.enter([], [copy])
    assert deliveries.duplicates([copy], []) == []


def test_copies_are_remembered_and_do_not_change_the_verdict(tmp_path: Path) -> None:
    deliveries = stored(tmp_path, [summary("first.hga"), summary("copy.hga", verdict="duplicate")])
    assert deliveries.verdicts == {"a1": "verified"}
    assert deliveries.duplicates([summary("copy.hga", verdict="known")], []) == []


def test_a_copy_is_archived_and_duplicate_and_leaves_the_ledger_balanced() -> None:
    account = Account()
    account.add([summary("first.hga")], {})
    account.add_duplicates([summary("copy.hga")])
    (row,) = account.ledger()
    assert (row["archived"], row["ingested"], row["duplicate"], row["balanced"]) == (6, 3, 3, True)
    assert account.chains[ChainName("0xd1", "boiler")].archives == 1


LOCKED, LESS = Locked((("s", "k1"), ("s", "k2")), 1, 3), Locked((("s", "k2"),), 1, 3)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_what_waits_is_known_in_whatever_order_compaction_left_the_rows(tmp_path: Path, order: tuple[int, ...]) -> None:
    rows = [
        summary("x.hga", locked=LOCKED),
        summary("x.hga", verdict="unlocked", locked=LESS),
        summary("x.hga", verdict="unlocked"),
    ]
    partly = stored(tmp_path / "partly", [rows[place] for place in order if place != 2])
    assert partly.waiting["a1"].locked == LESS
    assert stored(tmp_path / "all", [rows[place] for place in order]).waiting == {}


@pytest.mark.parametrize("turned", [False, True])
def test_a_verdict_that_is_final_stays(tmp_path: Path, turned: bool) -> None:
    rows = [summary("x.hga", verdict="archive encrypted"), summary("x.hga", verdict="verified")]
    assert stored(tmp_path, rows[::-1] if turned else rows).verdicts == {"a1": "verified"}
