"""Any bytes, as segment and state files, never keep a journal from opening, reading, checking and committing."""

import sys
from zlib import crc32

from agent.journal import Entry, Journal, JournalSettings
from agent.journal.inspection import inspect_journal, stats_of
from agent.journal.layout import HEAD_BYTES, HEAD_MAGIC, PAGE_BYTES
from agent.journal.repair import verify
from tests.support.simulated_disk import SimulatedDisk, SimulatedFile

SEGMENT_BYTES = 16 * 1024
SETTINGS = JournalSettings(segment_bytes=SEGMENT_BYTES, max_bytes=1 << 20, compression="none")
NAMES = ("0000.segment", "state-0", "0001.segment", "state-1")


def _sample_files() -> dict[str, bytes]:
    disk = SimulatedDisk()
    journal = Journal(disk, SETTINGS, new_journal_id=1, now_ms=0)
    for number in range(6):
        journal.append_many(number % 2, [Entry(bytes(50 * at), f"c{at}", at, at, 1 + 3 * at) for at in range(4)])
        journal.commit(0)
    return {name: bytes(file.content) for name, file in disk.files.items()}


_SAMPLE = _sample_files()
SEEDS = [bytes([at | flag]) + _SAMPLE[name].rstrip(b"\0") for at, name in enumerate(NAMES) for flag in (0, 0x80)]


def fuzz_one(data: bytes) -> None:
    """The first byte says which file of a sound journal the rest replaces, and whether checksums are made right."""
    disk = SimulatedDisk()
    for name, content in _SAMPLE.items():
        disk.files[name] = _file(content)
    if data:
        name, content = NAMES[data[0] % len(NAMES)], data[1:]
        disk.files[name] = _file(_with_right_checksums(content) if data[0] & 0x80 else content)
    verify(disk)
    stats_of(inspect_journal(disk), 0)
    journal = Journal(disk, SETTINGS, new_journal_id=2, now_ms=0)
    cursor = journal.cursor("publisher")
    while cursor.take(100):
        pass
    position = journal.append(0, Entry(b"after", "chain", 1, 1))
    journal.commit(0)
    assert [record.position for record in cursor.take(1)] == [position]


def _file(content: bytes) -> SimulatedFile:
    file = SimulatedFile()
    file.content, file.durable = bytearray(content), bytearray(content)
    return file


def _with_right_checksums(content: bytes) -> bytes:
    """So that a fuzzer gets past them: of every head, of its index and body, or of a state."""
    data = bytearray(content)
    if data[:4] == b"HGJS":
        size = int.from_bytes(data[4:8], "little")
        data[16:20] = _crc(data[20 : 20 + size], data[4:16])
    for start in range(0, len(data) - HEAD_BYTES, PAGE_BYTES):
        if data[start : start + 4] == HEAD_MAGIC:
            _repair_checksum(data, start)
    return bytes(data)


def _repair_checksum(data: bytearray, start: int) -> None:
    head = data[start : start + HEAD_BYTES]
    records, stored_bytes, table_bytes = (int.from_bytes(head[at : at + 4], "little") for at in (64, 76, 88))
    body_start = start + HEAD_BYTES + table_bytes
    seed = head[8:24] + head[24:28]
    index_end = body_start + records * 30
    data[start + 80 : start + 84] = _crc(data[body_start:index_end], seed)
    data[start + 84 : start + 88] = _crc(data[body_start : body_start + stored_bytes], seed)
    data[start + 92 : start + 96] = _crc(data[start + HEAD_BYTES : body_start], data[start + 4 : start + 92])


def _crc(data: bytes | bytearray, before: bytes | bytearray) -> bytes:
    return crc32(data, crc32(before)).to_bytes(4, "little")


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
