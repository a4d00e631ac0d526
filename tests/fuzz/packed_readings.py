"""Any bytes as a pack: the fast and the general path of the ingest give the same readings, or both refuse the pack."""

import binascii
from typing import Final
from unittest.mock import patch

from ingest.decoded import ROW_COLUMNS
from ingest.many_readings import ManyReadings
from ingest.quick import UsualMessage
from ingest.readings import join_links, read_content
from ingest.reasons import Quarantined
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.iomessage.content import BINARY_PACK, decode_binary_content, split_pack
from protocol.streamr.stream_message.usual_text import UsualText, parse_usual_text
from testbed.corpus.archives import Device, Made
from tests.support.fast_readings import rows_of

START_MS: Final = 1_790_000_000_000
_OF_CONTENT: Final = ROW_COLUMNS.index("message_id")
_DEVICE: Final = Device(71)
_MADE: Final = [
    _DEVICE.chain("linked").pack([0.5] * 3, START_MS),
    _DEVICE.chain("unlinked", linked=False).pack([0.5, 7, "text"], START_MS),
]


def _readings_of(made: Made) -> bytes:
    return b"".join(decode_binary_content(made.message.content) or [])


SEEDS = [_readings_of(made) for made in _MADE]
_TEXT: Final[UsualText | None] = parse_usual_text(_MADE[0].text)
_RECORD: Final = Record(b"", "chain", START_MS, 0, 0, 0, START_MS)


def fuzz_one(data: bytes) -> None:
    assert _TEXT is not None
    try:
        message = UsualMessage(0, _RECORD, ("stream", 0, "chain"), _TEXT, split_pack(data))
    except WireError:
        return
    base64 = binascii.b2a_base64(data, newline=False).decode()
    for together in (1, 10**9):
        with patch("ingest.many_readings.MIN_TOGETHER", together):
            found = ManyReadings([message])
        (decoded,) = found.decoded()
        try:
            readings = read_content(base64.join(BINARY_PACK), START_MS)
        except Quarantined:
            assert decoded is None
            continue
        assert decoded is not None
        assert decoded.link == join_links(readings)
        rows = [row[_OF_CONTENT:] for row in rows_of(found.lay_out(["first"]))]
        assert repr(rows) == repr([reading.columns for reading in readings])  # where NaN is equal to itself
