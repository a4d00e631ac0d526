"""Archives → the collector, or a directory such as a USB stick; and receipts back.

    HEAD: how much is there? ──► PUT or PATCH, part by part ──► 201 and a receipt ──► checked ──► deleted here

Each archive is sent until a receipt for it is here; what a broken link costs is one part. Sending again is harmless,
for an archive is its SHA-256. Only a receipt that the configured collector signed, for exactly this file of this
device, lets anything be deleted.

Into a directory, archives are copied whole; receipts that appear there as `<sha256>.receipt` are taken like any other.
"""

import asyncio
import contextlib
import hashlib
import http.client
import json
import logging
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from agent.archive.settings import ShipConfig
from agent.archive.stage import Archiving
from agent.archive.state import KeptArchive
from agent.errors import LinkDown, Rejected
from agent.keys import DeviceKeys
from agent.keys.files import read_public_key
from protocol.archive.receipt import Receipt
from protocol.errors import WireError
from protocol.shipping import (
    COMPLETE,
    CONTENT_TYPE_PART,
    MAX_RECEIPT_BYTES,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    ClaimStatement,
    Reaction,
    archive_path,
    offset_in_header,
    reaction_to,
    receipt_path,
    sign_claim,
)
from runtime.backoff import Backoff
from runtime.durable_files import make_directory, sync_directory
from runtime.errors import connection_error_text

MAX_PROBLEM_BYTES: Final = 4096
MAX_DETAIL_CHARACTERS = 400  # of a refusal's text
MAX_RESTARTS: Final = 3  # of one upload within one attempt
RECEIPT_SUFFIX: Final = ".receipt"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ShipperStatus:
    """The numbers only rise."""

    shipped: int = 0
    shipped_bytes: int = 0
    failures: int = 0  # in a row
    problem: str = ""


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

    async def run(self) -> None:
        while True:
            wait_s = self._config.check_every_s
            if self._config.when == "always" or self._is_idle():
                try:
                    await self.ship_all()
                    self._note("")
                except (LinkDown, OSError) as error:
                    self._note(str(error))
                    wait_s = self._backoff.wait_s(self.status.failures, self._chance())
            await asyncio.sleep(wait_s)

    async def ship_all(self) -> None:
        """Everything that waits for a receipt, oldest first. Raises: LinkDown, OSError."""
        wrong: _WrongReceipt | None = None
        for archive in self._archiving.kept:
            if archive.sha256 not in self._unsendable:
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
        abort = Abort()
        try:
            receipt = await asyncio.to_thread(self._deliver, archive, abort)
        except asyncio.CancelledError:
            abort.now()  # or a slow link would hold up the end of the process
            raise
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

    def _deliver(self, archive: KeptArchive, abort: "Abort") -> Receipt | None:
        path = self._archiving.folder / archive.file_name
        if self._config.directory is not None:
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

    def _note(self, problem: str) -> None:
        if problem and problem != self.status.problem:
            log.warning("shipping failed, archives stay on the disk; problem=%s", problem)
        elif self.status.problem and not problem:
            log.info("shipping works again")
        self.status.failures = self.status.failures + 1 if problem else 0
        self.status.problem = problem


def is_whole(path: Path, archive: KeptArchive) -> bool:
    """Whether the file is there and is what was written. Raises: OSError if the disk does not let us know."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest() == archive.sha256
    except FileNotFoundError:
        return False


# To a directory


def deliver_to_directory(path: Path, archive: KeptArchive, directory: Path) -> Receipt | None:
    """Copy it if it is not there; give the receipt if one has come. Raises: OSError."""
    target = directory / archive.file_name
    receipt = directory / f"{archive.sha256.hex()}{RECEIPT_SUFFIX}"
    if receipt.exists():
        with contextlib.suppress(WireError), receipt.open("rb") as file:  # half written, or not for us: later again
            return Receipt.from_bytes(file.read(MAX_RECEIPT_BYTES + 1))
    if not target.exists():
        make_directory(directory)
        _copy(path, target)
    return None


def _copy(path: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.part")
    with path.open("rb") as source, partial.open("wb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fsync(copy.fileno())
    partial.replace(target)
    sync_directory(target.parent)


# To a collector


class Abort:
    """Lets another thread end an upload at once. The collector retains its part, and the next upload continues it."""

    def __init__(self) -> None:
        self._is_set = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def watch(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def now(self) -> None:
        self._is_set.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def wait(self, seconds: float) -> None:
        """Raises: LinkDown if it is set meanwhile."""
        if self._is_set.wait(seconds):
            raise LinkDown("the agent is stopping")


def upload(path: Path, archive: KeptArchive, claim: str, config: ShipConfig, abort: Abort) -> Receipt:
    """Upload what the collector lacks, and return the receipt. Blocks; for a thread.

    Raises: LinkDown if it did not work this time, Rejected if this archive will never be accepted, OSError.
    """
    session = _Session(config, claim, archive, abort)
    try:
        with contextlib.closing(session), path.open("rb") as file:
            for _ in range(MAX_RESTARTS):
                receipt = _send_from(session, file, session.offset())
                if receipt is not None:
                    return receipt
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise session.down(error) from error
    raise LinkDown(f"{config.url}: {MAX_RESTARTS} attempts did not upload all of {archive.file_name}")


def _send_from(session: "_Session", file: BinaryIO, offset: int) -> Receipt | None:
    """None if the offsets do not agree, or nothing of a part has arrived: request the offset again."""
    if offset < 0:
        return session.receipt()
    while True:
        answer = session.send_part(file, offset)
        if answer.receipt is not None or answer.offset is None or answer.offset <= offset:
            return answer.receipt
        offset = answer.offset


@dataclass(frozen=True, slots=True)
class _Answer:
    receipt: Receipt | None = None
    offset: int | None = None


class _Session:
    """One connection for one archive."""

    def __init__(self, config: ShipConfig, claim: str, archive: KeptArchive, abort: Abort) -> None:
        assert config.url is not None
        url = urlsplit(config.url)
        self._url = config.url
        self._base = url.path.rstrip("/")
        self._archive = archive
        self._claim = claim
        self._abort = abort
        self._part_bytes = config.part_kilobytes * 1024
        self._bytes_per_s = None if config.kilobytes_per_s is None else config.kilobytes_per_s * 1000
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=config.ca_file)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                url.netloc, timeout=config.timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(url.netloc, timeout=config.timeout_s)
        abort.watch(self._connection)

    def close(self) -> None:
        self._connection.close()

    def offset(self) -> int:
        """How many bytes the collector has; -1 if it has all, and a receipt can be requested."""
        answer = self._ask("HEAD", archive_path(self._archive.sha256))
        answer.read()
        if answer.status != http.HTTPStatus.OK:  # a response to HEAD has no body; this one has the reason
            return 0 if self.receipt() is None else -1
        if answer.getheader(UPLOAD_COMPLETE) == COMPLETE:
            return -1
        return self._checked_offset(answer)

    def receipt(self) -> Receipt | None:
        answer = self._ask("GET", receipt_path(self._archive.sha256))
        body = answer.read(MAX_PROBLEM_BYTES)
        if answer.status == http.HTTPStatus.OK:
            return _read_receipt(body)
        self._refuse(answer.status, body)
        return None

    def send_part(self, file: BinaryIO, offset: int) -> _Answer:
        file.seek(offset)
        part = file.read(self._part_bytes)
        began_s = time.monotonic()
        headers = {"Content-Type": CONTENT_TYPE_PART, **({UPLOAD_OFFSET: str(offset)} if offset else {})}
        answer = self._ask("PATCH" if offset else "PUT", archive_path(self._archive.sha256), part, headers)
        body = answer.read(MAX_PROBLEM_BYTES)
        self._limit_rate(len(part), time.monotonic() - began_s)
        match answer.status:
            case http.HTTPStatus.OK | http.HTTPStatus.CREATED:
                return _Answer(receipt=_read_receipt(body))
            case http.HTTPStatus.ACCEPTED:
                return _Answer(offset=self._checked_offset(answer))
        self._refuse(answer.status, body)
        return _Answer()

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        everything = {"Authorization": self._claim, **(headers or {})}
        try:
            self._connection.request(method, self._base + path, body=body or None, headers=everything)
            return self._connection.getresponse()
        except OSError as error:
            raise self.down(error) from error

    def down(self, error: Exception) -> LinkDown:
        return LinkDown(f"{self._url}: {connection_error_text(error, self._connection.host)}")

    def _checked_offset(self, answer: http.client.HTTPResponse) -> int:
        try:
            offset = offset_in_header(answer.getheader(UPLOAD_OFFSET) or "")
        except WireError as error:
            raise LinkDown(f"invalid answer of the collector: {error}") from error
        if offset > self._archive.size_bytes:
            raise LinkDown(f"the collector has {offset} bytes of an archive of {self._archive.size_bytes}")
        return offset

    def _limit_rate(self, sent_bytes: int, took_s: float) -> None:
        required_s = 0.0 if self._bytes_per_s is None else sent_bytes / self._bytes_per_s
        self._abort.wait(max(0.0, required_s - took_s))

    def _refuse(self, status: int, body: bytes) -> None:
        """Returns if requesting the offset again may help. Raises: Rejected, LinkDown."""
        code, detail = _read_problem(body)
        match reaction_to(status, code):
            case Reaction.ASK_OFFSET | Reaction.START_OVER:
                return
            case Reaction.SET_ASIDE:
                raise Rejected(f"{status} {code}: {detail}")
            case _:
                answer = f"the collector answers {status} {code or ''}".rstrip()
                raise LinkDown(f"{answer}: {detail}" if detail else answer)


def _read_receipt(body: bytes) -> Receipt:
    try:
        return Receipt.from_bytes(body)
    except WireError as error:
        raise LinkDown(f"the receipt is not valid: {error}") from error


def _read_problem(body: bytes) -> tuple[str | None, str]:
    """Code and detail of a refusal, where the answer has them."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(problem, dict):
        return None, ""
    code, detail = problem.get("code"), problem.get("detail", "")
    return (code if isinstance(code, str) else None), str(detail)[:MAX_DETAIL_CHARACTERS]
