"""A host session fed with anything: it goes on, holds little, and never takes what nobody sent for a reading."""

import random

from firmware_bridge import HostSession, Moment
from tests.model_device import ModelDevice

MAX_OUTPUT_BYTES = 1 << 20


def _conversation() -> tuple[HostSession, list[bytes]]:
    """A session that is open, and what a device said to get it there."""
    session, device = HostSession(baudrate=115200, draw=random.Random(1).randbytes), ModelDevice()
    said = []
    for step in range(20):
        now_ms = step * 10.0
        session.tick(Moment(now_ms, 0))
        device.receive(session.take_output(), now_ms)
        device.tick(now_ms)
        device.measure(step, now_ms)
        said.append(device.take_output())
        session.receive(said[-1], Moment(now_ms, 0))
    return session, said


SEEDS: list[bytes] = [b"".join(_conversation()[1]), *_conversation()[1]]


def fuzz_one(data: bytes) -> None:
    session, _ = _conversation()
    for at in range(0, len(data), 64):
        now = Moment(200.0 + at, 1)
        session.receive(data[at : at + 64], now)
        session.tick(now)
    assert len(session.take_output()) < MAX_OUTPUT_BYTES
    assert session.wait_ms(1e9) == 0.0
