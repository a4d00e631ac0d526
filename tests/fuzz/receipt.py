"""Any bytes, as a receipt, a header or plain strict CBOR, give a value with that one encoding or a `WireError`."""

import contextlib

from protocol import strict_cbor
from protocol.archive.header import Header
from protocol.archive.receipt import Receipt
from protocol.errors import WireError
from protocol.strict_cbor import CborBounds
from tests.support.archives import HEADER
from tests.unit.protocol.archive.test_receipt import receipt

SEEDS = [receipt().to_bytes(), HEADER.to_bytes(), strict_cbor.encode({"a": [1, -1, b"x", "y", None, True, {}]})]
BOUNDS = CborBounds(max_bytes=4096, max_items=256, max_depth=8)


def fuzz_one(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert Receipt.from_bytes(data).to_bytes() == data
    with contextlib.suppress(WireError):
        assert Header.from_bytes(data).to_bytes() == data
    with contextlib.suppress(WireError):
        assert strict_cbor.encode(strict_cbor.decode(data, BOUNDS)) == data
