"""Firmware update: send the missing part of the image, monitor the trial run, confirm it.

    query ──► begin ──► chunk … ──► end ──► (the device resets) ──► new HELLO ──► confirm
                ▲          │                        │
                └──────────┘ it was reset           └──► the old HELLO again: it reverted by itself

It may be interrupted at any time: the same call continues from the state of the device.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from firmware_bridge.errors import CommandRejected, LinkDown
from protocol.firmware import Package, is_signed_by
from protocol.link import (
    MAX_CHUNK_BYTES,
    Feature,
    Hello,
    Message,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
)

RESPONSE_S: Final = 30.0  # a small processor needs time to check a signature, and to recover from a power cut
TRIAL_S: Final = 300.0  # several periods of the device's watchdog
POLL_S: Final = 0.1
MAX_SETBACKS: Final = 100  # resets of the device while an image is sent
MAX_BEGINNINGS: Final = 5
MAX_ENDS: Final = 5
SETTLE_S: Final = 0.3  # longer than the transmission of a response
CHUNK_OVERHEAD_BYTES: Final = 32  # frame and CBOR around a chunk's data, at most
CHUNK_STEP_BYTES: Final = 32  # whole units of any flash

_REASONS: Final = {
    UpdateReason.NOT_SUPPORTED: "it does not support updates over the link",
    UpdateReason.BAD_MANIFEST: "it does not understand the manifest",
    UpdateReason.BAD_SIGNATURE: "the key that signed it is not one of the device's",
    UpdateReason.OTHER_BOARD: "the firmware is for another board",
    UpdateReason.ROLLED_BACK: "its counter is lower than one that the device has confirmed; lower counters are refused",
    UpdateReason.TOO_LARGE: "the image does not fit its flash",
    UpdateReason.BAD_DIGEST: "the image that arrived is not the manifest's",
    UpdateReason.FLASH_FAILED: "its flash failed",
}
_AFTER_END: Final = (UpdateState.STAGED, UpdateState.TRIAL)
_ODD_REASONS: Final = (UpdateReason.NONE, UpdateReason.OUT_OF_PLACE, UpdateReason.NOT_BEGUN, UpdateReason.REVERTED)


class RequestLink(Protocol):
    """A link on which requests can be sent, as `DeviceLink` while it is pumped."""

    async def opened(self, timeout_s: float) -> Hello: ...
    async def ask(self, message: Message, patience_s: float) -> Message: ...


class UpdateResult(Enum):
    CONFIRMED = "confirmed"
    ALREADY_RUNS = "already runs"
    REVERTED = "reverted"  # the device tried it, and returned to the old firmware


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    device_id: str
    before: str  # versions
    after: str
    result: UpdateResult
    sent_bytes: int


def check_signature(package: Package, trusted_keys: Iterable[bytes]) -> None:
    """Raises: CommandRejected unless one of the keys signed it."""
    if not any(is_signed_by(key, package.manifest, package.signature) for key in trusted_keys):
        raise CommandRejected(f"firmware {package.manifest.version} is not signed by any trusted key")


async def update_firmware(
    link: RequestLink,
    package: Package,
    *,
    reached: Callable[[int], None] = lambda _: None,
    is_forced: bool = False,
    trial_s: float = TRIAL_S,
) -> UpdateReport:
    """Update a device, until the firmware is confirmed or the device has returned to the old one.

    `reached` is called with the number of bytes that the device has.

    `is_forced`: send it although the device reports that it runs this version.
    Raises: LinkDown if it stays silent, CommandRejected if it refuses.
    """
    update = _Update(link, package, reached)
    return await update.run(is_forced=is_forced, trial_s=trial_s)


class _Update:
    def __init__(self, link: RequestLink, package: Package, reached: Callable[[int], None]) -> None:
        self._link = link
        self._package = package
        self._version = package.manifest.version
        self._reached = reached
        self._sent_bytes = 0
        self._has_confirmed = False

    async def run(self, *, is_forced: bool, trial_s: float) -> UpdateReport:
        before = await self._link.opened(RESPONSE_S)
        if Feature.FIRMWARE_UPDATE not in before.features:
            raise CommandRejected(f"{before.device_id} does not support updates over the link")
        status = await self._ask(UpdateQuery())
        if status.state is UpdateState.TRIAL:
            return await self._finish_trial(before, trial_s)
        if before.firmware == self._version and not is_forced:
            return self._report(before, before, UpdateResult.ALREADY_RUNS)
        await self._deliver(before)
        return await self._complete_trial(before, trial_s)

    async def _finish_trial(self, hello: Hello, trial_s: float) -> UpdateReport:
        """An earlier update was interrupted during its trial."""
        if hello.firmware != self._version:
            raise CommandRejected(
                f"{hello.device_id} has {hello.firmware} on trial; unless that is confirmed, it returns to the old one;"
                " try again then"
            )
        return await self._complete_trial(hello, trial_s)

    async def _deliver(self, hello: Hello) -> None:
        """Send the image until it is staged, which the new firmware reports if the response of the old one was lost."""
        for _ in range(MAX_ENDS):
            await self._send_image(hello)
            status = await self._ask(UpdateEnd())
            if status.state not in _AFTER_END:
                status = await self._settled(status)
            if status.state in _AFTER_END:
                return
        raise CommandRejected(f"{hello.device_id} received the whole image several times and does not store it")

    async def _send_image(self, hello: Hello) -> None:
        image, chunk_bytes = self._package.image, _chunk_bytes(hello.mtu)
        status = await self._begin()
        setbacks = 0
        while (offset := status.next_offset) < len(image):
            self._reached(offset)
            chunk = UpdateChunk(offset=offset, data=image[offset : offset + chunk_bytes])
            status = await self._ask(chunk)
            self._sent_bytes += len(chunk.data)
            if status.state is UpdateState.RECEIVING and status.next_offset == offset + len(chunk.data):
                continue
            setbacks += 1
            if setbacks > MAX_SETBACKS:
                raise CommandRejected(f"{hello.device_id} does not store what it receives; it is at {offset} bytes")
            status = await self._settled(status)
            if status.state is not UpdateState.RECEIVING:
                status = await self._begin()
        self._reached(len(image))

    async def _begin(self) -> UpdateStatus:
        begin = UpdateBegin(manifest=self._package.manifest.to_bytes(), signature=self._package.signature)
        for _ in range(MAX_BEGINNINGS):
            status = await self._ask(begin)
            if status.state is not UpdateState.RECEIVING:
                status = await self._settled(status)
            if status.state is UpdateState.RECEIVING:
                return status
        raise CommandRejected(
            f"the device does not begin with firmware {self._version}: it is {status.state.name.lower()}"
        )

    async def _settled(self, odd: UpdateStatus) -> UpdateStatus:
        """The device's state, after a response that does not fit the request.

        A repeated request may be answered twice, and the second response mistaken for that to the next request.
        Waiting lets such responses pass; without it every later request would be sent twice. A device that was
        reset answers oddly, too. Raises: CommandRejected if it is neither, but a refusal.
        """
        if odd.reason not in _ODD_REASONS:
            why = _REASONS.get(odd.reason) or odd.reason.name.lower()
            raise CommandRejected(f"the device refuses firmware {self._version}: {why}")
        await asyncio.sleep(SETTLE_S)
        return await self._ask(UpdateQuery())

    async def _complete_trial(self, before: Hello, trial_s: float) -> UpdateReport:
        """Wait until the device runs one firmware for good, and confirm the new one."""
        deadline_s = asyncio.get_running_loop().time() + trial_s
        while (left_s := deadline_s - asyncio.get_running_loop().time()) > 0:
            hello, status = await self._query(left_s)
            match status.state:
                case UpdateState.TRIAL:
                    await self._confirm(hello)
                case UpdateState.IDLE if hello.firmware == self._version and self._has_confirmed:
                    return self._report(before, hello, UpdateResult.CONFIRMED)
                case UpdateState.IDLE:
                    return self._report(before, hello, UpdateResult.REVERTED)
                case _:  # it has not been reset yet
                    await asyncio.sleep(POLL_S)
        raise LinkDown(f"{before.device_id} has the new firmware, but does not start it; reset it by hand")

    async def _query(self, timeout_s: float) -> tuple[Hello, UpdateStatus]:
        """The running firmware and the state of the update, both of one boot."""
        hello = await self._link.opened(timeout_s)
        while True:
            status = await self._ask(UpdateQuery())
            again = await self._link.opened(RESPONSE_S)
            if again.boot_id == hello.boot_id:
                return hello, status
            hello = again

    async def _confirm(self, hello: Hello) -> None:
        """If it is reset before it receives this, the next query shows it on trial again, or back at the old one."""
        if hello.firmware != self._version:
            raise CommandRejected(
                f"{hello.device_id} runs the new firmware, but its version is {hello.firmware} and not"
                f" {self._version}; it is not confirmed, and the device will return to the old one"
            )
        await self._ask(UpdateConfirm())
        self._has_confirmed = True

    async def _ask(self, message: Message) -> UpdateStatus:
        answer = await self._link.ask(message, RESPONSE_S)
        if not isinstance(answer, UpdateStatus):
            raise CommandRejected(f"{message.KIND.name} was answered with {answer.KIND.name}")
        return answer

    def _report(self, before: Hello, after: Hello, result: UpdateResult) -> UpdateReport:
        return UpdateReport(
            device_id=before.device_id,
            before=before.firmware,
            after=after.firmware,
            result=result,
            sent_bytes=self._sent_bytes,
        )


def _chunk_bytes(mtu: int) -> int:
    fits = (mtu - CHUNK_OVERHEAD_BYTES) // CHUNK_STEP_BYTES * CHUNK_STEP_BYTES
    return min(fits, MAX_CHUNK_BYTES)
