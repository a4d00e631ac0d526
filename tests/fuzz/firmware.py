"""Any bytes, as a firmware file or a manifest, give a value with that one encoding or a `WireError`."""

import contextlib

from protocol.errors import WireError
from protocol.firmware import Manifest, Package
from tests.support.firmware_samples import package

SEEDS = [package().to_bytes(), package().manifest.to_bytes(), package(bytes(300), counter=2**32 - 1).to_bytes()]


def fuzz_one(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert Manifest.from_bytes(data).to_bytes() == data
    with contextlib.suppress(WireError):
        assert Package.from_bytes(data).to_bytes() == data
