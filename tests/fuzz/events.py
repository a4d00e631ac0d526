"""Any bytes, as a gap notice and as a scalar, give a value or a `WireError`."""

import contextlib

from protocol.errors import WireError
from protocol.events import GapNotice
from protocol.scalars import decode_scalar, encode_scalar
from tests.support.archives import LOSS

_NOTICE = GapNotice(journal=bytes(16), loss=LOSS)
SEEDS = [_NOTICE.to_bytes(), encode_scalar(21.5), encode_scalar(-7), encode_scalar("open"), encode_scalar(b"\x00")]


def fuzz_one(data: bytes) -> None:
    with contextlib.suppress(WireError):
        notice = GapNotice.from_bytes(data)
        assert notice.to_bytes() == data
    with contextlib.suppress(WireError):
        value = decode_scalar(data)
        again = decode_scalar(encode_scalar(value))
        assert again == value or (again != again and value != value)
