"""Any bytes, as segment and state files, never keep a journal from opening, reading, checking and committing."""

import sys

from agent.journal import Entry, Journal, JournalSettings
from agent.journal.inspection import look, stats_of, verify
from tests.simulated_disk import SimulatedDisk, SimulatedFile

SEGMENT_BYTES = 16 * 1024
SETTINGS = JournalSettings(segment_bytes=SEGMENT_BYTES, max_bytes=1 << 20, compression="none")
NAMES = ("0000.segment", "state-0", "0001.segment", "state-1")


def _sample_files() -> dict[str, bytes]:
    disk = SimulatedDisk()
    journal = Journal(disk, SETTINGS, new_journal_id=1, now_ms=0)
    for number in range(6):
        journal.append_many(number % 2, [Entry(bytes(50 * at), f"c{at}", at, at) for at in range(4)], 0)
        journal.commit(0)
    return {name: bytes(file.content) for name, file in disk.files.items()}


_SAMPLE = _sample_files()
SEEDS = [bytes([at]) + _SAMPLE[name].rstrip(b"\0") for at, name in enumerate(NAMES) if name in _SAMPLE]


def fuzz_one(data: bytes) -> None:
    """The first byte says which file of a sound journal is replaced by the rest."""
    disk = SimulatedDisk()
    for name, content in _SAMPLE.items():
        disk.files[name] = _file(content)
    if data:
        disk.files[NAMES[data[0] % len(NAMES)]] = _file(data[1:])
    verify(disk)
    stats_of(look(disk), 0)
    journal = Journal(disk, SETTINGS, new_journal_id=2, now_ms=0)
    cursor = journal.cursor("publisher")
    while cursor.take(100):
        pass
    position = journal.append(0, Entry(b"after", "chain", 1, 1), 0)
    journal.commit(0)
    assert [record.position for record in cursor.take(1)] == [position]


def _file(content: bytes) -> SimulatedFile:
    file = SimulatedFile()
    file.content, file.durable = bytearray(content), bytearray(content)
    return file


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
