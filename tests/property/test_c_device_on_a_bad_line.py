"""A device that runs the C library, a gateway, and a line between them that does what lines do.

Whatever it does, at the end every record is in the gateway's journal once and in order.
"""

import ctypes
import itertools
import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from protocol.link import Command, CommandResult
from tests.effort import effort
from tests.support.c_device import OK, WITH_AUTH, WITH_UPDATE, CDevice, build_library, running
from tests.support.small_gateway import SmallGateway

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "gcc")]

STEP_MS = 5
RECORDS = 80
LONGEST_MS = 120_000
KEY = bytes(range(32))


@pytest.fixture(scope="module", params=["base", "every option"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    options = [] if request.param == "base" else [WITH_AUTH, WITH_UPDATE]
    return build_library(tmp_path_factory.mktemp("library"), *options)


class BadLine:
    def __init__(self, chance: random.Random, trouble_per_byte: float) -> None:
        self._chance = chance
        self._trouble_per_byte = trouble_per_byte

    def carry(self, data: bytes) -> bytes:
        return b"".join(map(self._carry_byte, data))

    def _carry_byte(self, byte: int) -> bytes:
        if self._chance.random() >= self._trouble_per_byte:
            return bytes((byte,))
        kind = self._chance.randrange(4)
        flipped = byte ^ 1 << self._chance.randrange(8)
        return (b"", bytes((flipped,)), bytes((byte, byte)), bytes((byte, self._chance.randrange(256))))[kind]


def exchange(
    device: CDevice,
    gateway: SmallGateway,
    *,
    seed: int,
    trouble_per_byte: float,
    restarts_ms: list[int],
    room_bytes: int,
) -> None:
    """Record for a while, and go on until all of it is durable."""
    chance = random.Random(seed)
    line = BadLine(chance, trouble_per_byte)
    made = 0
    for now_ms in itertools.count(0, STEP_MS):
        assert now_ms < LONGEST_MS, f"{len(gateway.journal)} of {made} records are durable"
        device.set_now(now_ms)
        device.set_room(room_bytes)
        if made < RECORDS and now_ms % 20 == 0 and device.record([(0, made)]) == OK:
            made += 1
        device.receive(line.carry(gateway.tick(now_ms) + gateway.hear(line.carry(device.poll()), now_ms)))
        if now_ms % 200 == 0:
            gateway.commit()
        if now_ms in restarts_ms:
            gateway.restart()
        if made == RECORDS == len(gateway.journal):
            return


@settings(
    max_examples=effort(test=10, soak=1_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32),
    trouble_per_byte=st.sampled_from([0.0, 0.0001, 0.001, 0.01]),
    restarts_ms=st.lists(st.integers(0, 400).map(lambda step: step * STEP_MS), max_size=4),
    room_bytes=st.sampled_from([3, 20, 10_000]),
    is_authenticated=st.booleans(),
)
@example(seed=1, trouble_per_byte=0.01, restarts_ms=[500, 505, 1000], room_bytes=3, is_authenticated=True)
def test_every_record_becomes_durable_once_and_in_order(
    library: ctypes.CDLL,
    seed: int,
    trouble_per_byte: float,
    restarts_ms: list[int],
    room_bytes: int,
    is_authenticated: bool,
) -> None:
    key = KEY if is_authenticated and hasattr(library, "hg_blake2s_init") else None
    gateway = SmallGateway(key)
    with running(library, boot_id=b"one boot", key=key) as device:
        exchange(
            device,
            gateway,
            seed=seed,
            trouble_per_byte=trouble_per_byte,
            restarts_ms=restarts_ms,
            room_bytes=room_bytes,
        )
    values = [sample.value for record in gateway.journal for sample in record.samples]
    numbers = [record.rseq for record in gateway.journal]
    assert values == list(range(RECORDS))
    assert numbers == sorted(set(numbers))


@settings(
    max_examples=effort(test=6, soak=500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), trouble_per_byte=st.sampled_from([0.001, 0.01]))
def test_every_command_runs_once_however_often_it_is_repeated(
    library: ctypes.CDLL, seed: int, trouble_per_byte: float
) -> None:
    gateway, line = SmallGateway(), BadLine(random.Random(seed), trouble_per_byte)
    with running(library, boot_id=b"one boot") as device:
        pending = 1
        for now_ms in range(0, LONGEST_MS, STEP_MS):
            device.set_now(now_ms)
            said = gateway.tick(now_ms) + gateway.hear(line.carry(device.poll()), now_ms)
            if gateway.hello is not None and now_ms % 50 == 0:
                said += gateway.say(Command(id=pending, command=2, argument=pending))
            device.receive(line.carry(said))
            if any(isinstance(message, CommandResult) and message.id == pending for message in gateway.messages):
                pending += 1
            if pending > 10:
                break
        results = {message.id: message.value for message in gateway.messages if isinstance(message, CommandResult)}
        assert results == {number: number * (number + 1) // 2 for number in range(1, 11)}
        assert device.executed == 10
