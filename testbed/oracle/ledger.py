"""The ledger that the ingest would make of some archives and checkpoints, without Spark and without tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.oracle.messages import GroupKeys

if TYPE_CHECKING:
    from ingest.summary import ArchiveSummary
    from ingest.totals import Totals

Rows = list[dict[str, Any]]
Duplicates = Mapping[tuple[str, str], int]  # readings, by device and chain


class Ledger(NamedTuple):
    chains: Rows  # one per chain
    logs: Rows  # one per device log and lane
    gaps: Rows

    @property
    def totals(self) -> "Totals":
        return add_up_rows(self.chains, self.logs, self.gaps)

    def totals_of(self, device: str) -> "Totals":
        return add_up_rows(*([row for row in rows if row["device"] == device] for rows in self))


def add_up_rows(chains: Rows, logs: Rows, gaps: Rows) -> "Totals":
    from ingest.totals import add_up  # imports Spark's types, which is slow

    return add_up(ledger=chains, logs=logs, gaps=gaps)


def make_ledger(
    archives: Iterable[Path], keys: GroupKeys, *landings: Path, duplicates: Duplicates | None = None
) -> Ledger:
    """Of these archives and the checkpoints in `landings`. It finds no duplicates: `duplicates` says how many."""
    return ledger_of((read_summary(path, keys) for path in archives), *landings, duplicates=duplicates)


def ledger_of(summaries: "Iterable[ArchiveSummary]", *landings: Path, duplicates: Duplicates | None = None) -> Ledger:
    from ingest.account import Account, ChainName
    from ingest.checkpoints import Beside, read_checkpoints, read_forks
    from ingest.small_tables import ledger_rows

    new, known = _split(summaries)
    expected = Counter(dict(duplicates or {}))
    for summary in known:
        expected.subtract({(summary.device or "", chain): each.archived for chain, each in summary.chains.items()})
    account = Account()
    account.add(new, {ChainName(*name): count for name, count in expected.items() if count})
    account.add_duplicates(known)
    for landing in landings:
        Beside(tuple(read_checkpoints(landing, None, print)), tuple(read_forks(landing))).enter(account)
    rows = ledger_rows(account)
    return Ledger(rows["ledger"], rows["logs"], rows["gaps"])


def _split(summaries: "Iterable[ArchiveSummary]") -> "tuple[list[ArchiveSummary], list[ArchiveSummary]]":
    """The first of each archive, and those that come again."""
    new: dict[str, ArchiveSummary] = {}
    known = [summary for summary in summaries if new.setdefault(summary.archive, summary) is not summary]
    return list(new.values()), known


def read_summary(path: Path, keys: GroupKeys) -> "ArchiveSummary":
    from ingest.archive_rows import DecodeSettings, decode_archive
    from ingest.summary import ArchiveSummary

    settings = DecodeSettings(group_keys={stream: dict(known) for stream, known in keys.items()})
    landed_at_ms = path.stat().st_mtime_ns // 1_000_000
    rows = decode_archive(str(path), path.read_bytes(), landed_at_ms, settings, lambda _batch: None)
    [text] = [text for batch in rows for text in batch.column("summary").to_pylist() if text is not None]
    return ArchiveSummary.from_json(text)
