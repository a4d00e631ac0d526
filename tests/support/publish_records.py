"""Records and sources of records for tests of publishers."""

from agent.journal import Entry, Journal, Record
from agent.publish import CursorSource
from tests.support.journal_helpers import NOW_MS, open_journal
from tests.support.simulated_disk import SimulatedDisk

__all__ = ["NOW_MS", "filled_journal", "record", "source_of"]


def record(position: int, *, lane: int = 0, chain: str = "chain", payload: bytes = b"{}", readings: int = 1) -> Record:
    return Record(position, lane, payload, chain, NOW_MS + position, 0, NOW_MS, readings)


def filled_journal(*chains: tuple[int, str, int], readings: int = 1) -> Journal:
    """A journal that holds so many entries of each (lane, chain, count), and so many readings in each entry."""
    journal = open_journal(SimulatedDisk())
    for lane, chain, count in chains:
        entries = [Entry(b"%d" % number, chain, NOW_MS + number, number, readings) for number in range(count)]
        journal.append_many(lane, entries)
        journal.commit(NOW_MS)
    return journal


def source_of(journal: Journal) -> CursorSource:
    return CursorSource(journal.cursor("publisher"))
