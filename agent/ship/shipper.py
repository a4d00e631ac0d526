"""The ship task: sends archives and checkpoints, and reacts to the responses."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from agent.archive.settings import ShipConfig
from agent.archive.stage import Archiving
from agent.archive.state import KeptArchive
from agent.errors import LinkDown, Rejected
from agent.keys import DeviceKeys
from agent.keys.files import read_public_key
from agent.ship.connection import Abort, LogForked
from agent.ship.directory import check_mount, deliver_to_directory, write_checkpoint
from agent.ship.heartbeat import send_checkpoint
from agent.ship.log_check import LogCheck, check_answer
from agent.ship.upload import upload
from protocol.archive.receipt import Receipt
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import ClaimStatement, sign_claim
from runtime.backoff import Backoff

NEW_LOG_PAUSE_S: Final = 600.0  # at least, between two logs that the collector makes the device begin
REFUSED: Final = "the collector holds another archive with the same number: this disk was copied or restored"

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ShipperStatus:
    """The counts only rise."""

    shipped: int = 0
    shipped_bytes: int = 0
    failures: int = 0  # in a row
    problem: str = ""
    checkpoint_at_ms: int | None = None  # when the last checkpoint was made that the collector accepted
    held_size: int | None = None  # archives of the log that the collector holds without a hole, by its last answer
    log_problem: str = ""  # what is wrong with the log at the collector


class _WrongReceipt(LinkDown):
    """There is a receipt, and it is not for this archive of this device from the configured collector."""


class Shipper:
    """`run` is one task of the pipeline."""

    def __init__(
        self,
        config: ShipConfig,
        archiving: Archiving,
        keys: DeviceKeys,
        *,
        is_idle: Callable[[], bool],
        chance: Callable[[], float],
    ) -> None:
        """Raises: ConfigError if the collector's key cannot be read."""
        self.status = ShipperStatus()
        self._config = config
        self._archiving = archiving
        self._keys = keys
        self._is_idle = is_idle
        self._chance = chance
        self._collector_key = b"" if config.collector_key is None else read_public_key(config.collector_key)
        self._backoff = Backoff(first_s=1.0, max_s=600.0)
        self._unsendable: set[bytes] = set()  # refused for good or damaged, until the next start
        self._reported: tuple[bytes, int, int] | None = None  # log, its size and the archives that waited
        self._reported_at_s = 0.0
        self._new_log_at_s: float | None = None

    async def run(self) -> None:
        while True:
            problems = []
            if self._config.when == "always" or self._is_idle():
                problems.append(await _problem_of(self.ship_all()))
            if self._is_checkpoint_due():
                problems.append(await _problem_of(self.report_checkpoint()))
            if problems:
                self._note(next(filter(None, problems), ""))
            await asyncio.sleep(self._wait_s())

    def _wait_s(self) -> float:
        if self.status.failures:
            return self._backoff.wait_s(self.status.failures, self._chance())
        every_s = self._archiving.config.checkpoint_every_s
        return min(self._config.check_every_s, max(0.0, self._reported_at_s + every_s - time.monotonic()))

    # Archives

    async def ship_all(self) -> None:
        """Everything that waits for a receipt, oldest first. Raises: LinkDown, OSError."""
        wrong: _WrongReceipt | None = None
        for archive in self._archiving.kept:
            if archive.sha256 not in self._unsendable and archive in self._archiving.kept:
                try:
                    await self._ship(archive)
                except _WrongReceipt as error:
                    if self._config.directory is None:
                        raise
                    wrong = wrong or error  # anything may lie in the directory: it holds up no other archive
        if wrong is not None:
            raise wrong

    async def _ship(self, archive: KeptArchive) -> None:
        if not await asyncio.to_thread(self._may_go, archive):
            await self._give_up(archive)
            return
        try:
            receipt = await _abortable(lambda abort: self._deliver(archive, abort))
        except LogForked as error:
            await self._archive_in_new_log(archive, error)
            return
        except Rejected as error:
            self._unsendable.add(archive.sha256)
            log.error("collector refused an archive, it is not deleted; file=%s problem=%s", archive.file_name, error)  # noqa: TRY400
            return
        if receipt is None:
            return
        if await self._archiving.release(receipt, self._collector_key) is None:
            raise _WrongReceipt(f"{archive.file_name}: the receipt is not for this archive from this collector")
        self.status.shipped += 1
        self.status.shipped_bytes += archive.size_bytes
        log.info("shipped; file=%s bytes=%d", archive.file_name, archive.size_bytes)

    def _may_go(self, archive: KeptArchive) -> bool:
        """Whether it is what was written. What lies in the directory was, when it was copied: it is not read again."""
        directory = self._config.directory
        is_copied = directory is not None and (directory / archive.file_name).exists()
        return is_copied or is_whole(self._archiving.folder / archive.file_name, archive)

    async def _give_up(self, archive: KeptArchive) -> None:
        if archive.is_of_this_journal:
            log.error("archive is damaged, its messages are archived again; file=%s", archive.file_name)
            await self._archiving.archive_again(archive)
        else:
            self._unsendable.add(archive.sha256)
            log.error("archive of an earlier journal is damaged and cannot be sent; file=%s", archive.file_name)

    async def _archive_in_new_log(self, archive: KeptArchive, error: LogForked) -> None:
        """Raises: LinkDown if a log has just begun for such a reason, OSError."""
        log.error("collector refused an archive of a forked log; file=%s problem=%s", archive.file_name, error)
        if archive.is_of_this_journal:
            await self._begin_log(REFUSED, archive)
        else:
            self._unsendable.add(archive.sha256)

    def _deliver(self, archive: KeptArchive, abort: Abort) -> Receipt | None:
        path = self._archiving.folder / archive.file_name
        if self._config.directory is not None:
            check_mount(self._config)
            return deliver_to_directory(path, archive, self._config.directory)
        statement = ClaimStatement(
            binding=self._keys.binding,
            archive=archive.sha256,
            size_bytes=archive.size_bytes,
            entry=archive.entry,
            collector_key=self._collector_key,
        )
        claim = sign_claim(statement, self._keys.sign_archive)
        return upload(path, archive, claim.to_header(), self._config, abort)

    # Checkpoints

    def _is_checkpoint_due(self) -> bool:
        waited_s = time.monotonic() - self._reported_at_s
        return self._reported != self._shown() or waited_s >= self._archiving.config.checkpoint_every_s

    def _shown(self) -> tuple[bytes, int, int]:
        state = self._archiving.state
        return state.log.log, state.log.size, len(state.kept)

    async def report_checkpoint(self) -> None:
        """Send a checkpoint, and compare the answer with the log. Raises: LinkDown, OSError."""
        shown = self._shown()
        checkpoint = await self._archiving.checkpoint()
        if self._config.directory is not None:
            check_mount(self._config)
            await asyncio.to_thread(write_checkpoint, checkpoint, self._config.directory)
        else:
            await self._compare(checkpoint)
        self._reported, self._reported_at_s = shown, time.monotonic()

    async def _compare(self, checkpoint: Checkpoint) -> None:
        answer = await _abortable(lambda abort: send_checkpoint(checkpoint, self._config, self._collector_key, abort))
        check = check_answer(answer, self._archiving.state)
        self.status.checkpoint_at_ms = checkpoint.made_at_ms
        self._note_log(check)
        if check.new_log:
            await self._begin_log(check.new_log)

    def _note_log(self, check: LogCheck) -> None:
        if check.problem and check.problem != self.status.log_problem:
            log.error("%s", check.problem)
        self.status.held_size, self.status.log_problem = check.held_size, check.problem

    async def _begin_log(self, reason: str, refused: KeptArchive | None = None) -> None:
        """Raises: LinkDown if one has just begun: a collector that always objects must not wear out the disk."""
        now_s = time.monotonic()
        if self._new_log_at_s is not None and now_s - self._new_log_at_s < NEW_LOG_PAUSE_S:
            raise LinkDown(f"{reason}; a new log has begun less than {NEW_LOG_PAUSE_S:.0f} s ago")
        await self._archiving.begin_log(reason, refused)
        self._new_log_at_s = now_s

    def _note(self, problem: str) -> None:
        if problem and problem != self.status.problem:
            log.warning("shipping failed, archives stay on the disk; problem=%s", problem)
        elif self.status.problem and not problem:
            log.info("shipping works again")
        self.status.failures = self.status.failures + 1 if problem else 0
        self.status.problem = problem


async def _problem_of(work: Coroutine[Any, Any, None]) -> str:
    """Why it failed; empty if it did not."""
    try:
        await work
    except (LinkDown, OSError) as error:
        return str(error)
    return ""


async def _abortable(work: Callable[[Abort], T]) -> T:
    """Run it in a thread; if the caller is cancelled, a slow link does not hold up the end of the process."""
    abort = Abort()
    try:
        return await asyncio.to_thread(work, abort)
    except asyncio.CancelledError:
        abort.now()
        raise


def is_whole(path: Path, archive: KeptArchive) -> bool:
    """Whether the file is there and is what was written. Raises: OSError if the disk does not let us know."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest() == archive.sha256
    except FileNotFoundError:
        return False
