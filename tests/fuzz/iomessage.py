"""Any bytes, as each of the three embodiments and as a stream, give values or a `WireError`."""

import contextlib

from protocol.errors import WireError
from protocol.iomessage import EMPTY_CHAIN, IoMessage, IoMessageReader, hash_link
from tests.support.iomessage_samples import EVERY_FIELD, message

_SAMPLES = [message(), message(**EVERY_FIELD), hash_link(message(), EMPTY_CHAIN)]
SEEDS = [form for each in _SAMPLES for form in (each.to_bytes(), each.to_json().encode(), each.to_xml().encode())]


def fuzz_one(data: bytes) -> None:
    with contextlib.suppress(WireError):
        message = IoMessage.from_bytes(data)
        assert IoMessage.from_bytes(message.to_bytes())[:-1] == message[:-1]
    for read in (IoMessage.from_json, IoMessage.from_xml):
        with contextlib.suppress(WireError):
            text = read(data).to_json()
            assert IoMessage.from_json(text).to_json() == text
    with contextlib.suppress(WireError):
        reader = IoMessageReader(max_message_bytes=4096)
        for start in range(0, len(data), 16):
            reader.feed(data[start : start + 16])
        reader.close()
