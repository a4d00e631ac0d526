"""Bring a device to another firmware: send what it does not have yet, see it through its trial, confirm it.

    query ──► begin ──► chunk … ──► end ──► (the device resets) ──► new HELLO ──► confirm
                ▲          │                        │
                └──────────┘ it was reset           └──► the old HELLO again: it went back by itself

Everything may be interrupted anywhere: the same call again goes on where the device stands.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from firmware_bridge.errors import LinkDown, Rejected
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

__all__ = ["AskingLink", "UpdateReport", "UpdateResult", "check_signature", "update_firmware"]

ANSWER_S: Final = 30.0  # a small processor takes a while to check a signature, and a power cut a while to mend
TRIAL_S: Final = 300.0  # the device's watchdog, as often as it tries
LOOK_AGAIN_S: Final = 0.1
MAX_SETBACKS: Final = 100  # resets of the device in one update
MAX_TRIAL_LOOKS: Final = 20
CHUNK_OVERHEAD_BYTES: Final = 32  # frame and CBOR around a chunk's data, at most
CHUNK_STEP_BYTES: Final = 32  # whole units of any flash

_WHY: Final = {
    UpdateReason.NOT_SUPPORTED: "it takes no firmware over the link",
    UpdateReason.BAD_MANIFEST: "it does not understand the manifest",
    UpdateReason.BAD_SIGNATURE: "the key that signed it is not one of the device's",
    UpdateReason.OTHER_BOARD: "the firmware is for another board",
    UpdateReason.ROLLED_BACK: "its counter is lower than one that the device has confirmed; it never goes back",
    UpdateReason.TOO_LARGE: "the image does not fit its flash",
    UpdateReason.BAD_DIGEST: "the image that arrived is not the manifest's",
    UpdateReason.FLASH_FAILED: "its flash failed",
}


class AskingLink(Protocol):
    """As `DeviceLink`, while somebody pumps."""

    async def opened(self, timeout_s: float) -> Hello: ...
    async def ask(self, message: Message, patience_s: float) -> Message: ...


class UpdateResult(Enum):
    CONFIRMED = "confirmed"
    ALREADY_RUNS = "already runs"
    REVERTED = "reverted"  # the device tried it, and went back to what it had


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    device_id: str
    before: str  # versions
    after: str
    result: UpdateResult
    sent_bytes: int


def check_signature(package: Package, trusted_keys: Iterable[bytes]) -> None:
    """Raises: Rejected unless one of the keys signed it."""
    if not any(is_signed_by(key, package.manifest, package.signature) for key in trusted_keys):
        raise Rejected(f"firmware {package.manifest.version} is signed by none of the keys that are trusted here")


async def update_firmware(
    link: AskingLink,
    package: Package,
    *,
    reached: Callable[[int], None] = lambda _: None,
    is_forced: bool = False,
    trial_s: float = TRIAL_S,
) -> UpdateReport:
    """Until the device runs and has confirmed it, or has gone back. `reached` hears how many bytes are there.

    `is_forced`: send it although the device says that it runs this version.
    Raises: LinkDown if it stays silent, Rejected if it refuses.
    """
    update = _Update(link, package, reached)
    return await update.run(is_forced=is_forced, trial_s=trial_s)


class _Update:
    def __init__(self, link: AskingLink, package: Package, reached: Callable[[int], None]) -> None:
        self._link = link
        self._package = package
        self._version = package.manifest.version
        self._reached = reached
        self._sent_bytes = 0

    async def run(self, *, is_forced: bool, trial_s: float) -> UpdateReport:
        before = await self._link.opened(ANSWER_S)
        if Feature.FIRMWARE_UPDATE not in before.features:
            raise Rejected(f"{before.device_id} takes no firmware over the link")
        status = await self._ask(UpdateQuery())
        if status.state is UpdateState.TRIAL:
            return await self._finish_trial(before)
        if before.firmware == self._version and not is_forced:
            return self._report(before, before, UpdateResult.ALREADY_RUNS)
        await self._send_image(before)
        await self._stage()
        return await self._see_trial_through(before, trial_s)

    async def _finish_trial(self, hello: Hello) -> UpdateReport:
        """An earlier update was left alone in the middle of its trial."""
        if hello.firmware != self._version:
            raise Rejected(
                f"{hello.device_id} has {hello.firmware} on trial; it goes back by itself if that is not confirmed,"
                " try again then"
            )
        return await self._see_trial_through(hello, LOOK_AGAIN_S, is_in_trial=True)

    async def _send_image(self, hello: Hello) -> None:
        image, chunk_bytes = self._package.image, _chunk_bytes(hello.mtu)
        status = await self._begin()
        setbacks = 0
        while (offset := status.next_offset) < len(image):
            self._reached(offset)
            chunk = UpdateChunk(offset=offset, data=image[offset : offset + chunk_bytes])
            status = await self._ask(chunk)
            if status.reason is UpdateReason.NOT_BEGUN:
                status = await self._begin()
            elif status.reason is not UpdateReason.OUT_OF_PLACE:
                self._check(status, UpdateState.RECEIVING)
            self._sent_bytes += len(chunk.data)
            setbacks += status.next_offset <= offset
            if setbacks > MAX_SETBACKS:
                raise Rejected(f"{hello.device_id} does not keep what it is sent; it stands at {offset} bytes")
        self._reached(len(image))

    async def _begin(self) -> UpdateStatus:
        begin = UpdateBegin(manifest=self._package.manifest.to_bytes(), signature=self._package.signature)
        status = await self._ask(begin)
        self._check(status, UpdateState.RECEIVING)
        return status

    async def _stage(self) -> None:
        """The answer may come from the new firmware already, if the first one was lost."""
        self._check(await self._ask(UpdateEnd()), UpdateState.STAGED, UpdateState.TRIAL)

    async def _see_trial_through(self, before: Hello, trial_s: float, *, is_in_trial: bool = False) -> UpdateReport:
        known_boot = b"" if is_in_trial else before.boot_id
        for _ in range(MAX_TRIAL_LOOKS):
            hello = await self._next_boot(known_boot, trial_s)
            status = await self._ask(UpdateQuery())
            if status.state is UpdateState.TRIAL:
                self._check_name(hello)
                status = await self._ask(UpdateConfirm())
                known_boot = b""  # if it was reset meanwhile, another one answers next time
                if status.state is UpdateState.IDLE and await self._is_still(hello):
                    return self._report(before, hello, UpdateResult.CONFIRMED)
            elif status.state is UpdateState.IDLE:
                is_new = hello.firmware == self._version != before.firmware
                return self._report(before, hello, UpdateResult.CONFIRMED if is_new else UpdateResult.REVERTED)
        raise Rejected(f"{before.device_id} neither keeps {self._version} nor goes back")

    def _check_name(self, hello: Hello) -> None:
        if hello.firmware != self._version:
            raise Rejected(
                f"{hello.device_id} runs the new firmware, but that calls itself {hello.firmware} and not"
                f" {self._version}; it is not confirmed, and the device will go back"
            )

    async def _next_boot(self, known_boot: bytes, timeout_s: float) -> Hello:
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = deadline_s - asyncio.get_running_loop().time()
            hello = await self._link.opened(max(LOOK_AGAIN_S, left_s))
            if hello.boot_id != known_boot:
                return hello
            if left_s < 0:
                raise LinkDown(f"{hello.device_id} has the new firmware, but does not restart; reset it by hand")
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _is_still(self, hello: Hello) -> bool:
        return (await self._link.opened(ANSWER_S)).boot_id == hello.boot_id

    async def _ask(self, message: Message) -> UpdateStatus:
        answer = await self._link.ask(message, ANSWER_S)
        if not isinstance(answer, UpdateStatus):
            raise Rejected(f"{message.KIND.name} was answered with {answer.KIND.name}")
        return answer

    def _check(self, status: UpdateStatus, *wanted: UpdateState) -> None:
        if status.state not in wanted:
            why = _WHY.get(status.reason) or f"{status.state.name.lower()}, {status.reason.name.lower()}"
            raise Rejected(f"the device refuses firmware {self._version}: {why}")

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
