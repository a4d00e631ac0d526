"""Any bytes from a broker give publications, a request for more or a ValueError, however they are cut up."""

import contextlib

from runtime.mqtt.packets import Parsed
from runtime.mqtt.packets import parse_publications as take
from tests.unit.runtime.mqtt.test_packets import publication

_PUBLICATIONS = [
    publication("plant/boiler/data", b'{"value":1}', number=7, is_v5=True),
    publication("a", b"", number=0, is_v5=False),
    publication("a/b", b"x" * 200, number=65535, is_v5=False, is_duplicate=True),
]
SEEDS = [*_PUBLICATIONS, b"".join(_PUBLICATIONS), b"\x20\x02\0\0", b"\xd0\0", b"\x30\xff\xff\xff\x7f"]


def parse_publications(data: bytes, *, is_v5: bool) -> Parsed:
    return take(data, is_v5=is_v5, max_bytes=1 << 20)


def fuzz_one(data: bytes) -> None:
    for is_v5 in (True, False):
        with contextlib.suppress(ValueError):
            whole = parse_publications(data, is_v5=is_v5)
            assert 0 <= whole.used_bytes <= len(data)
            half = len(data) // 2
            first = parse_publications(data[:half], is_v5=is_v5)
            second = parse_publications(data[first.used_bytes :], is_v5=is_v5)
            assert first.messages + second.messages == whole.messages
