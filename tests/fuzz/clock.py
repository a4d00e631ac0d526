"""Any bytes, as what a device says of its clock, give a value with that one encoding or a `WireError`."""

import contextlib

from protocol.clock import ClockContext, ClockCorrection
from protocol.errors import WireError
from tests.unit.protocol.test_clock import CONTEXT, CORRECTION

SEEDS = [CONTEXT.to_bytes(), CORRECTION.to_bytes()]


def fuzz_one(data: bytes) -> None:
    for kind in (ClockContext, ClockCorrection):
        with contextlib.suppress(WireError):
            assert kind.from_bytes(data).to_bytes() == data
