"""A small journal on a simulated disk, and ways to fill and read it."""

from typing import Any

from agent.journal import Entry, Journal, JournalSettings, Record
from tests.support.simulated_disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 16 * 1024


def settings(segments: int = 8, **changes: Any) -> JournalSettings:
    """Room for so many small segments."""
    roomy = JournalSettings(segment_bytes=SEGMENT_BYTES, max_bytes=1 << 20)
    max_bytes = 2 * roomy.state_bytes + segments * SEGMENT_BYTES
    return JournalSettings(**{"segment_bytes": SEGMENT_BYTES, "max_bytes": max_bytes, **changes})


def open_journal(disk: SimulatedDisk, using: JournalSettings | None = None) -> Journal:
    return Journal(disk, using or settings(), new_journal_id=0xABCD, now_ms=NOW_MS)


def entry(number: int, size: int = 20, chain: str = "boiler", readings: int = 1) -> Entry:
    return Entry(str(number).encode().ljust(size, b"."), chain, NOW_MS + number, number, readings)


def commit(journal: Journal, lane: int, *entries: Entry) -> None:
    journal.append_many(lane, entries)
    journal.commit(NOW_MS)


def fill_segments(journal: Journal, lane: int, segments: int, start: int = 0) -> int:
    """One commit per page, four pages per segment. Gives the number after the last entry."""
    for number in range(start, start + 4 * segments):
        commit(journal, lane, entry(number, 3000))
    return start + 4 * segments


def read_all(journal: Journal, name: str = "publisher", lane: int | None = None) -> list[Record]:
    cursor = journal.cursor(name)
    records: list[Record] = []
    while taken := cursor.take(7, lane=lane):
        records += taken
    return records


def reported(journal: Journal) -> list[tuple[int, int, int, str]]:
    """Of each pending loss, the first and the last position, the readings and the cause."""
    losses = [gap.loss for gap in journal.pending_losses()]
    return [(loss.first_position, loss.last_position, loss.count, loss.cause) for loss in losses]


def sequences(records: list[Record]) -> list[int]:
    return [record.sequence for record in records]
