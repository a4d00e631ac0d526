"""Which archives the tables hold, and which files of the landing area brought them.

An archive is entered once, under its digest. Another file with the same archive is a copy: its records are counted in
the ledger as duplicates, once, for the table of archives remembers the file. The same file seen again is nothing new.
"""

from typing import NamedTuple

import pyarrow.parquet as pq

from ingest.store import Store
from ingest.summary import DUPLICATE, RETRIED, UNLOCKED, ArchiveSummary, Locked


class Waiting(NamedTuple):
    """An archive of which some messages could not be opened."""

    path: str
    device: str
    locked: Locked


class Deliveries:
    """What the table of archives says, in memory. It grows by what each commit enters."""

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}  # of each archive, by its digest
        self.since: dict[str, str] = {}  # of those, the ones entered since it was last cleared
        self.waiting: dict[str, Waiting] = {}  # by the archive's digest
        self._files: set[tuple[str, str]] = set()
        self._opened: set[str] = set()

    @classmethod
    def of(cls, store: Store) -> "Deliveries":
        found = cls()
        for file in store.files("archives"):
            for row in pq.ParquetFile(store.path("archives", file)).read().to_pylist():
                locked = row.get("locked") and Locked.from_json(row["locked"])
                found._enter(row["archive"], row["path"], row["verdict"])
                found._note_locked(row["archive"], row["path"], row["device"], row["verdict"], locked)
        return found

    def __len__(self) -> int:
        """The number of files that were entered."""
        return len(self._files)

    def enter(self, summaries: list[ArchiveSummary], duplicates: list[ArchiveSummary]) -> None:
        for summary in summaries:
            self._enter(summary.archive, summary.path, summary.verdict)
            self._note_locked(summary.archive, summary.path, summary.device, summary.verdict, summary.locked)
        for summary in duplicates:
            self._enter(summary.archive, summary.path, DUPLICATE)

    def duplicates(self, delivered: list[ArchiveSummary], chosen: list[ArchiveSummary]) -> list[ArchiveSummary]:
        """The delivered files that repeat an archive and were not counted before."""
        entered = {(each.archive, each.path) for each in chosen}
        new = [each for each in delivered if (each.archive, each.path) not in entered]
        return [each for each in new if (each.archive, each.path) not in self._files]

    def _enter(self, archive: str, path: str, verdict: str) -> None:
        self._files.add((archive, path))
        is_final = archive in self.verdicts and self.verdicts[archive] not in RETRIED
        if verdict not in (DUPLICATE, UNLOCKED) and not is_final:
            self.verdicts[archive] = self.since[archive] = verdict

    def _note_locked(self, archive: str, path: str, device: str | None, verdict: str, locked: Locked | None) -> None:
        """In whatever order rows are read, the one that has the fewest keys missing is the last."""
        if verdict == DUPLICATE or archive in self._opened:
            return
        known = self.waiting.get(archive)
        if locked is None:
            self.waiting.pop(archive, None)
            if verdict == UNLOCKED:
                self._opened.add(archive)
        elif known is None or len(locked.keys) < len(known.locked.keys):
            self.waiting[archive] = Waiting(path, device or "", locked)
