"""A host session and a device on a line in virtual time, with noise on demand."""

import random
from functools import partial

from firmware_bridge import Event, HostSession, LinkLost, LinkUp, Measured, Moment
from firmware_bridge.received import Boot, SampleName
from testbed.cable import CLEAN, Faults, LinePace, Spoiler
from tests.support.model_device import ModelDevice

UTC_MS = 1_700_000_000_000
STEP_MS = 2.0


class Wire:
    """One direction: damaged, then paced."""

    def __init__(self, faults: Faults, baudrate: int | None, seed: int) -> None:
        self.spoiler = Spoiler(faults, seed)
        self._pace = LinePace(baudrate)
        self._waiting = bytearray()

    def carry(self, data: bytes, now_ms: float) -> bytes:
        self._waiting += self.spoiler.spoil(data)
        count = self._pace.passed(len(self._waiting), now_ms / 1000)
        passed = bytes(self._waiting[:count])
        del self._waiting[:count]
        return passed


class Bench:
    """Commits what it is given after `commit_ms`, unless asked not to."""

    def __init__(
        self,
        device: ModelDevice | None = None,
        *,
        faults: Faults = CLEAN,
        baudrate: int = 115200,
        key: bytes | None = None,
        expected_device: str = "",
        commit_ms: float = 50.0,
        seed: int = 1,
    ) -> None:
        self.device = device or ModelDevice()
        self.now_ms = 0.0
        self.events: list[Event] = []
        self.committed: list[Measured] = []
        self.is_committing = True
        draw = random.Random(seed).randbytes
        self._make_session = partial(
            HostSession, baudrate=baudrate, key=key, expected_device=expected_device, draw=draw
        )
        self.session = self._make_session()
        self.to_host, self.to_device = Wire(faults, baudrate, seed), Wire(faults, baudrate, seed + 1)
        self._commit_ms = commit_ms
        self._uncommitted: list[tuple[float, Measured]] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, UTC_MS + int(self.now_ms))

    def kill_host(self) -> None:
        """What it had not committed is gone; the next process knows what was delivered, from the journal."""
        taken = [event.token for event in self.measured]
        self._uncommitted.clear()
        kept = {each.token for each in self.committed}
        self.session = self._make_session()
        self.session.received.recall(taken, [token for token in taken if token not in kept])
        self.events = [event for event in self.events if not isinstance(event, Measured) or event.token in kept]

    @property
    def measured(self) -> list[Measured]:
        return [event for event in self.events if isinstance(event, Measured)]

    @property
    def ups(self) -> list[LinkUp]:
        return [event for event in self.events if isinstance(event, LinkUp)]

    @property
    def losses(self) -> list[LinkLost]:
        return [event for event in self.events if isinstance(event, LinkLost)]

    def values_of(self, boot_id: bytes) -> list[float]:
        """What is durable of the pulses, which count up from 0 in each boot."""
        boot = Boot.of(self.device.device_id, boot_id)
        names = ((SampleName.of_token(each.token), each) for each in self.committed)
        return [each.value for name, each in names if name and name.boot == boot and each.sensor.quantity == "pulses"]

    def run(self, duration_ms: float, *, measure_every_ms: float = 0.0) -> None:
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            if measure_every_ms and self.now_ms % measure_every_ms == 0:
                self.device.measure(len(self.device.measured[self.device.boot_id]), self.now_ms)
            self.step()

    def step(self) -> None:
        """As the shell does it: the session is given bytes when some came, and ticks when it said so."""
        now_ms, device, session = self.now_ms, self.device, self.session
        if heard := self.to_device.carry(session.take_output(), now_ms):
            device.receive(heard, now_ms)
        device.tick(now_ms)
        data = self.to_host.carry(device.take_output(), now_ms)
        found = session.receive(data, self.moment) if data else []
        if not session.wait_ms(now_ms):
            found += session.tick(self.moment)
        self.events += found
        self._uncommitted += [(now_ms, event) for event in found if isinstance(event, Measured)]
        self._commit()

    def _commit(self) -> None:
        while self.is_committing and self._uncommitted and self._uncommitted[0][0] + self._commit_ms <= self.now_ms:
            _, measured = self._uncommitted.pop(0)
            self.committed.append(measured)
            self.session.commit([measured.token], self.now_ms)
