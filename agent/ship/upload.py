"""Uploads one archive to a collector: asks how much is there, sends the rest in parts, returns the receipt."""

import contextlib
import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from agent.archive.settings import ShipConfig
from agent.archive.state import KeptArchive
from agent.errors import LinkDown
from agent.ship.connection import CONNECTION_ERRORS, MAX_PROBLEM_BYTES, Abort, CollectorConnection, refuse
from protocol.archive.receipt import Receipt
from protocol.errors import WireError
from protocol.shipping import (
    COMPLETE,
    CONTENT_TYPE_PART,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    archive_path,
    offset_in_header,
    receipt_path,
)

MAX_RESTARTS: Final = 3  # of one upload within one attempt


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
    except CONNECTION_ERRORS as error:
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
        self._connection = CollectorConnection(config, abort)
        self._archive = archive
        self._claim = claim
        self._abort = abort
        self._part_bytes = config.part_kilobytes * 1024
        self._bytes_per_s = None if config.kilobytes_per_s is None else config.kilobytes_per_s * 1000
        self.down = self._connection.down
        self.close = self._connection.close

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
        refuse(answer.status, body)
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
        refuse(answer.status, body)
        return _Answer()

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        return self._connection.ask(method, path, body, {"Authorization": self._claim, **(headers or {})})

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


def _read_receipt(body: bytes) -> Receipt:
    try:
        return Receipt.from_bytes(body)
    except WireError as error:
        raise LinkDown(f"the receipt is not valid: {error}") from error
