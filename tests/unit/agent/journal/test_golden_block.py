"""The worked example of the documents, byte by byte."""

from pathlib import Path

from agent.journal.layout import Place, decode_block, encode_block, parse_head
from agent.journal.records import Entry

EXAMPLE = Path(__file__).parents[3] / "vectors" / "journal" / "block.hex"
PLACE = Place(journal_id=0x1122334455667788, segment_id=3, lane=2, page=0, written_at_ms=1_700_000_000_250)
ENTRIES = [
    Entry(b'{"t":20.5}', "boiler", 1_700_000_000_000, 0),
    Entry(b'{"t":[20.6,20.7]}', "boiler", 1_700_000_000_100, 0, readings=2),
]


def _example() -> bytes:
    block = bytearray(4096)
    for line in EXAMPLE.read_text().splitlines():
        offset, data = line.split("  ")
        block[int(offset, 16) : int(offset, 16) + 16] = bytes.fromhex(data)
    return bytes(block)


def test_the_example_is_what_we_write() -> None:
    assert encode_block(PLACE, 7, ENTRIES, None) == _example()


def test_the_example_is_read() -> None:
    head = parse_head(_example())
    assert head is not None
    records = decode_block(head, _example()).records
    assert [(record.position, record.next_position, record.lane, record.entry) for record in records] == [
        (7, 8, 2, ENTRIES[0]),
        (8, 10, 2, ENTRIES[1]),
    ]
