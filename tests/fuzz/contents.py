"""Any content of a message, alone and as a pack, gives readings or a `WireError`, and is shown without harm."""

import base64
import contextlib
import json

from agent.operator.contents import open_content
from agent.operator.readings import readings_in, table_lines
from agent.operator.subscription_report import as_json_lines, as_text_lines
from protocol.errors import WireError
from protocol.iomessage.content import decode_binary_content, encode_binary_content, split_pack
from tests.support.pack_samples import binary_content, json_content, linked_readings, unsigned_message

_READINGS = linked_readings(3)
_PACKED = b"".join(each.to_bytes() for each in _READINGS)
SEEDS = [
    *(encode(_READINGS[:count]).encode() for encode in (binary_content, json_content) for count in (1, 3)),
    _PACKED,
    _READINGS[0].to_bytes(),
]
_MESSAGE = unsigned_message("{}")


def fuzz_one(data: bytes) -> None:
    _read(data.decode(errors="replace"))
    _read(f'{{"ioMessages":"{base64.b64encode(data).decode()}"}}')
    _read(f'{{"ioMessage":"{base64.b64encode(data).decode()}"}}')
    with contextlib.suppress(WireError):
        assert b"".join(split_pack(data)) == data


def _read(content: str) -> None:
    with contextlib.suppress(WireError):
        binary = decode_binary_content(content)
        if binary is not None:
            assert decode_binary_content(encode_binary_content(binary)) == binary
    with contextlib.suppress(WireError):
        assert all(line.isprintable() for line in table_lines(readings_in(content)))
    event = open_content(_MESSAGE, content)
    assert all(line.isprintable() for line in as_text_lines(event))
    assert all(json.loads(line) for line in as_json_lines(event))
