"""The ledger that the ingest would make of some archives and checkpoints, without Spark and without tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.oracle.lake import GroupKeys

if TYPE_CHECKING:
    from ingest.summary import ArchiveSummary
    from ingest.totals import Totals


class Ledger(NamedTuple):
    chains: list[dict[str, Any]]  # one row per chain
    logs: list[dict[str, Any]]  # one row per device log and lane
    totals: "Totals"


def make_ledger(archives: Iterable[Path], keys: GroupKeys, landing: Path | None = None) -> Ledger:
    """Of these archives and the checkpoints in `landing`. Duplicates are not removed: the oracle counts them itself."""
    return ledger_of((read_summary(path, keys) for path in archives), landing)


def ledger_of(summaries: "Iterable[ArchiveSummary]", landing: Path | None = None) -> Ledger:
    from ingest.account import Account
    from ingest.checkpoints import Beside, read_checkpoints, read_forks
    from ingest.small_tables import ledger_rows  # imports Spark's types, which is slow
    from ingest.totals import add_up

    account = Account()
    account.add(summaries, {})
    if landing is not None:
        Beside(tuple(read_checkpoints(landing, None, print)), tuple(read_forks(landing))).enter(account)
    rows = ledger_rows(account)
    return Ledger(rows["ledger"], rows["logs"], add_up(**rows))


def read_summary(path: Path, keys: GroupKeys) -> "ArchiveSummary":
    from ingest.archive_rows import DecodeSettings, decode_archive
    from ingest.summary import ArchiveSummary

    settings = DecodeSettings(group_keys={stream: dict(known) for stream, known in keys.items()})
    landed_at_ms = path.stat().st_mtime_ns // 1_000_000
    rows = decode_archive(str(path), path.read_bytes(), landed_at_ms, settings, lambda _batch: None)
    [text] = [text for batch in rows for text in batch.column("summary").to_pylist() if text is not None]
    return ArchiveSummary.from_json(text)
