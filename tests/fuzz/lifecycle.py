"""Any bytes, as a notice of the agent or of a device, give a value or a `WireError`."""

import contextlib

from protocol.errors import WireError
from protocol.lifecycle import DeviceNotice, LifecycleNotice

SEEDS = [
    LifecycleNotice(version="0.1.0", configuration=bytes(32), reason="").to_bytes(),
    DeviceNotice(device="boiler", before="up", after="down", lasted_ms=5, reason="no reply").to_bytes(),
]


def fuzz_one(data: bytes) -> None:
    for kind in (LifecycleNotice, DeviceNotice):
        with contextlib.suppress(WireError):
            assert kind.from_bytes(data).to_bytes() == data
