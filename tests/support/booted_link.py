"""A link to a device whose update code is the real one, in C, without a wire: as `DeviceLink` looks to an update."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping

from protocol.firmware import Package
from protocol.link import (
    Feature,
    Hello,
    Message,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateReason,
    UpdateState,
    UpdateStatus,
)
from tests.support.boot_library import BootableDevice, SimulatedFlash, Status
from tests.support.firmware_samples import BUILDER_KEY

LATE_S = 0.01
REVERTED = 2
TRIAL_STATES = {1: UpdateState.STAGED, 2: UpdateState.TRIAL}


class BootedLink:
    """`reset_before`: how often the device is reset just before it hears a message of a type.

    `double_answers`: how likely a question is repeated, and its second answer comes late; who waits before he asks
    again does not meet it. Images in `never_speak` hang until the watchdog resets them. `calls_itself` is what firmware
    on trial says of itself, if not its version.
    """

    def __init__(
        self,
        *known: Package,
        reset_before: Mapping[type[Message], int] | None = None,
        never_speak: tuple[Package, ...] = (),
        calls_itself: str = "",
        features: Feature = Feature.FIRMWARE_UPDATE,
        mtu: int = 256,
        double_answers: float = 0.0,
        seed: int = 0,
    ) -> None:
        flash = SimulatedFlash()
        flash.install(0, known[0])
        self.device = BootableDevice(flash, BUILDER_KEY)
        self.asked: list[Message] = []
        self._versions = {each.image: each.manifest.version for each in known}
        self._resets = Counter(reset_before)
        self._never_speak = {each.image for each in never_speak}
        self._calls_itself = calls_itself
        self._features = features
        self._mtu = mtu
        self._double_answers = double_answers
        self._chance = random.Random(seed)
        self._late: list[UpdateStatus] = []
        self._asked_at_s = 0.0
        self._boots = 0
        self.reset()

    def reset(self) -> None:
        running = self.device.boot()
        assert running is not None
        self._boots += 1
        self._is_receiving = False
        if running.image in self._never_speak:
            return self.reset()
        self.firmware = self._versions[running.image]
        if running.is_trial and self._calls_itself:
            self.firmware = self._calls_itself
        return None

    async def opened(self, timeout_s: float) -> Hello:  # noqa: ARG002 - it answers at once
        return Hello(
            host_nonce=b"",
            boot_id=self._boots.to_bytes(8),
            syncs=1,
            device_id="bench",
            firmware=self.firmware,
            mtu=self._mtu,
            window=4,
            sensors=0,
            commands=0,
            schema=0,
            next_rseq=0,
            dropped=0,
            last_command=0,
            uptime_ms=0,
            features=self._features,
        )

    async def ask(self, message: Message, patience_s: float) -> Message:  # noqa: ARG002 - it answers at once
        self.asked.append(message)
        if self._resets[type(message)] > 0:
            self._resets[type(message)] -= 1
            self.reset()
        now_s = asyncio.get_running_loop().time()
        if now_s - self._asked_at_s >= LATE_S:
            self._late.clear()
        self._asked_at_s = now_s
        repeats = 1 + (self._chance.random() < self._double_answers)
        self._late += [self._answer(self._do(message)) for _ in range(repeats)]
        if isinstance(message, UpdateEnd) and self._late[-1].state is UpdateState.STAGED:
            self.reset()
        return self._late.pop(0)

    def _do(self, message: Message) -> Status:
        match message:
            case UpdateBegin():
                status = self.device.begin_with(message.manifest, message.signature)
                self._is_receiving |= status is Status.OK
                return status
            case UpdateChunk():
                return self.device.chunk(message.offset, message.data)
            case UpdateEnd():
                return self.device.end()
            case UpdateConfirm():
                return self.device.confirm()
        return Status.OK

    def _answer(self, status: Status) -> UpdateStatus:
        usual = UpdateState.RECEIVING if self._is_receiving else UpdateState.IDLE
        state, reason = TRIAL_STATES.get(self.device.record.trial, usual), UpdateReason.NONE
        if state is UpdateState.IDLE and self.device.record.last_end == REVERTED:
            reason = UpdateReason.REVERTED
        if status not in (Status.OK, Status.ON_TRIAL):
            state = state if status is Status.OUT_OF_PLACE else UpdateState.REFUSED
            reason = UpdateReason(-status)
        return UpdateStatus(next_offset=self.device.next_offset, state=state, reason=reason)
