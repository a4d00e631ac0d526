"""A host session fed with anything: it goes on, holds little, and accepts only readings that were sent."""

import copy
import random

from firmware_bridge import HostSession, Moment
from tests.support.model_device import ModelDevice

MAX_OUTPUT_BYTES = 1 << 20


def _conversation() -> tuple[HostSession, list[bytes]]:
    """A session that is open, and what a device said to get it there."""
    session, device = HostSession(baudrate=115200, draw=random.Random(1).randbytes), ModelDevice()
    said = []
    for step in range(8):
        now_ms = step * 10.0
        session.tick(Moment(now_ms, 0))
        device.receive(session.take_output(), now_ms)
        device.tick(now_ms)
        device.measure(step, now_ms)
        said.append(device.take_output())
        session.receive(said[-1], Moment(now_ms, 0))
    assert session.is_open
    return session, said


_OPEN, _SAID = _conversation()
SEEDS: list[bytes] = [b"".join(_SAID), *_SAID]


def fuzz_one(data: bytes) -> None:
    session = copy.deepcopy(_OPEN)
    for at in range(0, len(data), 64):
        now = Moment(200.0 + at, 1)
        session.receive(data[at : at + 64], now)
        session.tick(now)
    assert len(session.take_output()) < MAX_OUTPUT_BYTES
    assert session.wait_ms(1e9) == 0.0
