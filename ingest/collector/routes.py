"""What each request is answered with. Errors become answers here, and nowhere else."""

import asyncio
import errno
import json
import logging
import time

from ingest.collector.blocking import Workers
from ingest.collector.connection import Answer, Connection, Request
from ingest.collector.errors import Refused
from ingest.collector.intake import Intake, describe
from ingest.collector.metrics import CONTENT_TYPE_METRICS, Metrics
from ingest.collector.rates import DeviceRates
from ingest.collector.settings import Limits
from ingest.collector.turns import Turns
from ingest.collector.uploads import UploadFile
from protocol.errors import HeadgateError, WireError
from protocol.shipping import (
    ARCHIVES_PATH,
    COMPLETE,
    CONTENT_TYPE_PROBLEM,
    CONTENT_TYPE_RECEIPT,
    INCOMPLETE,
    RECEIPTS_PATH,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    Refusal,
    UploadClaim,
    digest_in_path,
    offset_in_header,
)

log = logging.getLogger(__name__)

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_METHODS = {ARCHIVES_PATH: ("HEAD", "PUT", "PATCH"), RECEIPTS_PATH: ("GET", "HEAD")}


class Routes:
    def __init__(self, intake: Intake, limits: Limits, metrics: Metrics, disk: Workers, checks: Workers) -> None:
        self._intake = intake
        self._rates = DeviceRates(limits)
        self._limits = limits
        self._metrics = metrics
        self._disk = disk
        self._checks = checks
        self._turns = Turns()

    async def answer(self, request: Request, connection: Connection) -> Answer:
        """Raises: ClientGone only."""
        try:
            return await self._dispatch(request, connection)
        except Refused as refused:
            return self.refuse(refused)
        except (OSError, HeadgateError) as error:
            return self.refuse(_fault(error))

    def refuse(self, refused: Refused) -> Answer:
        self._metrics.refusals[refused.refusal] += 1
        refusal = refused.refusal
        headers = {"Content-Type": CONTENT_TYPE_PROBLEM}
        if refused.offset is not None:
            headers |= {UPLOAD_OFFSET: str(refused.offset), UPLOAD_COMPLETE: INCOMPLETE}
        if refused.retry_after_s is not None:
            headers["Retry-After"] = str(refused.retry_after_s)
        if refusal.status == 401:
            headers["WWW-Authenticate"] = "Headgate"
        body = {"status": refusal.status, "code": refusal.code, "detail": refused.detail}
        return Answer(status=refusal.status, headers=headers, body=json.dumps(body).encode())

    async def _dispatch(self, request: Request, connection: Connection) -> Answer:
        match request.path:
            case "/healthz":
                return await self._health()
            case "/metrics":
                return await self._show_metrics()
        for prefix, methods in _METHODS.items():
            digest = digest_in_path(request.path, prefix)
            if digest is not None:
                if request.method not in methods:
                    raise Refused(Refusal.METHOD_NOT_ALLOWED, f"only {', '.join(methods)} are answered here")
                return await self._serve_archive(request, connection, digest)
        raise Refused(Refusal.NOT_FOUND, "there are /archives/<sha256> and /receipts/<sha256>, in lower case")

    async def _serve_archive(self, request: Request, connection: Connection, digest: bytes) -> Answer:
        claim = _claim_of(request, digest)
        await self._disk.run(self._intake.admit, claim)
        self._rates.count_request(claim.device, time.monotonic())
        async with self._turns.take((claim.device, claim.archive)):
            receipt = await self._find_receipt(claim)
            if request.path.startswith(RECEIPTS_PATH):
                return _receipt_or_refusal(receipt)
            if request.method == "HEAD":
                return await self._tell_offset(claim, is_stored=receipt is not None)
            length = _length_of(request, claim)
            if receipt is not None:
                return await self._repeat_receipt(connection, claim, receipt)
            return await self._upload(connection, claim, _offset_of(request), length)

    async def _find_receipt(self, claim: UploadClaim) -> bytes | None:
        receipt = await self._disk.run(self._intake.receipts.find, claim)
        if receipt is None and await self._disk.run(self._intake.landing.holds, claim.archive):
            receipt = await self._checks.run(self._intake.give_missing_receipt, claim)
        return receipt

    async def _tell_offset(self, claim: UploadClaim, *, is_stored: bool) -> Answer:
        if is_stored:
            return Answer(status=200, headers={UPLOAD_OFFSET: str(claim.size_bytes), UPLOAD_COMPLETE: COMPLETE})
        offset = await self._disk.run(self._intake.offset, claim)
        return Answer(status=200, headers={UPLOAD_OFFSET: str(offset), UPLOAD_COMPLETE: INCOMPLETE})

    async def _repeat_receipt(self, connection: Connection, claim: UploadClaim, receipt: bytes) -> Answer:
        """A client that did not ask before it sends is heard out: many do not listen until they have sent all."""
        if not connection.waits_for_permission:
            async for piece in connection.body():
                await self._slow_down(claim, len(piece))
        self._metrics.receipts_repeated += 1
        return _receipt_answer(200, receipt, claim)

    async def _upload(self, connection: Connection, claim: UploadClaim, offset: int | None, length: int) -> Answer:
        upload = await self._disk.run(self._intake.begin, claim, offset, length)
        try:
            await self._receive(connection, claim, upload)
            if upload.missing_bytes:
                headers = {UPLOAD_OFFSET: str(upload.offset), UPLOAD_COMPLETE: INCOMPLETE}
                return Answer(status=202, headers=headers)
            receipt = await self._checks.run(self._intake.complete, claim)
        finally:
            await self._disk.run(self._intake.uploads.close, upload)
        self._metrics.archives_stored += 1
        self._metrics.bytes_stored += claim.size_bytes
        log.info("archive stored; %s", describe(claim))
        return _receipt_answer(201, receipt, claim)

    async def _receive(self, connection: Connection, claim: UploadClaim, upload: UploadFile) -> None:
        async for piece in connection.body():
            await self._disk.run(upload.append, piece)
            await self._slow_down(claim, len(piece))

    async def _slow_down(self, claim: UploadClaim, received: int) -> None:
        """Read no more for as long as the device is ahead of its rate; TCP makes it wait."""
        self._metrics.bytes_received += received
        wait_s = self._rates.count_bytes(claim.device, received, time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _health(self) -> Answer:
        free_bytes = await self._disk.run(self._intake.uploads.free_bytes)
        if free_bytes < self._limits.min_free_bytes:
            raise Refused(Refusal.NO_SPACE, f"{free_bytes} bytes are free, {self._limits.min_free_bytes} must be")
        return Answer(status=200, headers={"Content-Type": "text/plain"}, body=b"ok\n")

    async def _show_metrics(self) -> Answer:
        gauges = {
            "uploads_under_way": self._intake.uploads.under_way,
            "free_bytes": await self._disk.run(self._intake.uploads.free_bytes),
        }
        body = self._metrics.as_text(gauges).encode()
        return Answer(status=200, headers={"Content-Type": CONTENT_TYPE_METRICS}, body=body)


def _fault(error: OSError | HeadgateError) -> Refused:
    """Our disk, or a file of ours, is to blame: the operator is told all of it, the client only that it may retry."""
    log.error("a request could not be served; %s", error)
    if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
        return Refused(Refusal.NO_SPACE, "the collector's disk is full", retry_after_s=300)
    return Refused(Refusal.FAULT, "the collector failed; its log tells more", retry_after_s=60)


def _claim_of(request: Request, digest: bytes) -> UploadClaim:
    """Raises: Refused unless the request carries a true claim to this very archive."""
    value = request.headers.get("authorization")
    if value is None:
        raise Refused(Refusal.CLAIM_MISSING, "each request carries a claim: Authorization: Headgate <claim>")
    try:
        claim = UploadClaim.from_header(value)
    except WireError as error:
        raise Refused(Refusal.CLAIM_INVALID, str(error)) from error
    if claim.archive != digest:
        raise Refused(Refusal.CLAIM_INVALID, "the claim is for another archive")
    return claim


def _length_of(request: Request, claim: UploadClaim) -> int:
    if request.content_length is None:
        raise Refused(Refusal.LENGTH_REQUIRED, "Content-Length is required")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(Refusal.BAD_REQUEST, "archives are taken as they are, without a Content-Encoding")
    if request.content_length > claim.size_bytes:
        problem = f"{request.content_length} bytes are more than the {claim.size_bytes} of the claim"
        raise Refused(Refusal.BAD_LENGTH, problem)
    return request.content_length


def _offset_of(request: Request) -> int | None:
    """None: from the first byte, whatever is there."""
    if request.method == "PUT":
        if UPLOAD_OFFSET.lower() in request.headers:
            raise Refused(Refusal.BAD_REQUEST, f"PUT begins at the first byte; PATCH goes on from {UPLOAD_OFFSET}")
        return None
    try:
        return offset_in_header(request.headers.get(UPLOAD_OFFSET.lower(), ""))
    except WireError as error:
        raise Refused(Refusal.BAD_REQUEST, str(error)) from error


def _receipt_answer(status: int, receipt: bytes, claim: UploadClaim) -> Answer:
    headers = {
        "Content-Type": CONTENT_TYPE_RECEIPT,
        UPLOAD_OFFSET: str(claim.size_bytes),
        UPLOAD_COMPLETE: COMPLETE,
    }
    return Answer(status=status, headers=headers, body=receipt)


def _receipt_or_refusal(receipt: bytes | None) -> Answer:
    if receipt is None:
        raise Refused(Refusal.NOT_STORED, "this archive is not stored here")
    return Answer(status=200, headers={"Content-Type": CONTENT_TYPE_RECEIPT}, body=receipt)
