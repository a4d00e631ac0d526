"""The ingest's own ledger of the same archives, made by the ingest's own code, without a cluster under it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.oracle.lake import GroupKeys

if TYPE_CHECKING:
    from ingest.archive_rows import DecodeSettings
    from ingest.summary import ArchiveSummary

__all__ = ["make_ledger"]


def make_ledger(archives: Iterable[Path], keys: GroupKeys) -> list[dict[str, Any]]:
    """One row per chain. Copies of a message are not looked for: the oracle counts them itself."""
    from ingest.account import Account
    from ingest.archive_rows import DecodeSettings  # brings Spark's types, which take their time

    settings = DecodeSettings(group_keys={stream: dict(known) for stream, known in keys.items()})
    account = Account()
    account.add([_summary(path, settings) for path in archives], {})
    return account.ledger()


def _summary(path: Path, settings: "DecodeSettings") -> "ArchiveSummary":
    from ingest.archive_rows import decode_archive
    from ingest.summary import ArchiveSummary

    rows = decode_archive(str(path), path.read_bytes(), 0, settings, lambda _batch: None)
    [text] = [text for batch in rows for text in batch.column("summary").to_pylist() if text is not None]
    return ArchiveSummary.from_json(text)
