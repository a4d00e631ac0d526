"""Which archives the tables hold, and which files of the landing area brought them.

An archive is entered once, under its digest. Another file with the same archive is a copy: its records are counted in
the ledger as duplicates, once, for the table of archives remembers the file. The same file seen again is nothing new.
"""

import pyarrow.parquet as pq

from ingest.store import Store
from ingest.summary import DUPLICATE, RETRIED, ArchiveSummary

__all__ = ["Deliveries"]


class Deliveries:
    """What the table of archives says, in memory. It grows by what each commit enters."""

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}  # of each archive, by its digest
        self._files: set[tuple[str, str]] = set()

    @classmethod
    def of(cls, store: Store) -> "Deliveries":
        found = cls()
        columns = ["archive", "path", "verdict"]
        for file in store.files("archives"):
            rows = pq.read_table(store.path("archives", file), columns=columns)
            for row in zip(*(rows[name].to_pylist() for name in columns), strict=True):
                found._enter(*row)
        return found

    def __len__(self) -> int:
        """How many files were taken."""
        return len(self._files)

    def enter(self, summaries: list[ArchiveSummary], copies: list[ArchiveSummary]) -> None:
        for summary in summaries:
            self._enter(summary.archive, summary.path, summary.verdict)
        for summary in copies:
            self._enter(summary.archive, summary.path, DUPLICATE)

    def copies(self, delivered: list[ArchiveSummary], chosen: list[ArchiveSummary]) -> list[ArchiveSummary]:
        """Of what was delivered, the files that bring an archive again and were never counted before."""
        entered = {(each.archive, each.path) for each in chosen}
        return [each for each in delivered if (each.archive, each.path) not in entered | self._files]

    def _enter(self, archive: str, path: str, verdict: str) -> None:
        self._files.add((archive, path))
        is_final = archive in self.verdicts and self.verdicts[archive] not in RETRIED
        if verdict != DUPLICATE and not is_final:
            self.verdicts[archive] = verdict
