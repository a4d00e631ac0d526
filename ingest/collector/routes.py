"""Serves the requests to the collector. Errors become responses only here (`refusals`)."""

import asyncio
import logging
import time

from ingest.collector.blocking import Workers
from ingest.collector.device_limits import ArchiveLocks, DeviceRates
from ingest.collector.errors import UploadRefused
from ingest.collector.intake import Intake, describe, now_ms
from ingest.collector.metrics import Metrics
from ingest.collector.monitoring import MonitoringRoutes
from ingest.collector.refusals import Refuser, fault
from ingest.collector.settings import Limits
from ingest.collector.uploads import UploadFile
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES
from protocol.errors import HeadgateError, WireError
from protocol.shipping import (
    ARCHIVES_PATH,
    COMPLETE,
    CONTENT_TYPE_CHECKPOINT,
    CONTENT_TYPE_RECEIPT,
    INCOMPLETE,
    RECEIPTS_PATH,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    Refusal,
    UploadClaim,
    digest_in_path,
    log_in_path,
    offset_in_header,
)
from runtime.http import ClientGone, HttpError, Request, Response

log = logging.getLogger(__name__)

_METHODS = {ARCHIVES_PATH: ("HEAD", "PUT", "PATCH"), RECEIPTS_PATH: ("GET", "HEAD")}


class Routes(Refuser):
    """Archives and receipts, and the monitoring pages unless they have a listener of their own."""

    def __init__(
        self,
        intake: Intake,
        limits: Limits,
        metrics: Metrics,
        disk: Workers,
        checks: Workers,
        *,
        monitoring: MonitoringRoutes | None,
    ) -> None:
        super().__init__(metrics)
        self._intake = intake
        self._rates = DeviceRates(limits)
        self._disk = disk
        self._checks = checks
        self._monitoring = monitoring
        self._locks = ArchiveLocks()

    async def answer(self, request: Request) -> Response:
        """Raises: ClientGone, HttpError."""
        try:
            return await self._dispatch(request)
        except UploadRefused as refused:
            return self.deny(refused)
        except (ClientGone, HttpError):
            raise
        except (OSError, HeadgateError) as error:
            return self.deny(fault(error))

    async def _dispatch(self, request: Request) -> Response:
        if self._monitoring is not None and (found := await self._monitoring.find(request)) is not None:
            return found
        if (device_log := log_in_path(request.target)) is not None:
            _check_method(request, ("PUT",))
            return await self._answer_checkpoint(request, device_log)
        for prefix, methods in _METHODS.items():
            digest = digest_in_path(request.target, prefix)
            if digest is not None:
                _check_method(request, methods)
                claim = await self._admit(request, digest)
                request.admit()
                return await self._serve_archive(request, claim)
        expected = "/archives/<sha256>, /receipts/<sha256> or /logs/<log>/checkpoint"
        raise UploadRefused(Refusal.NOT_FOUND, f"expected {expected}, in lower case")

    async def _answer_checkpoint(self, request: Request, device_log: bytes) -> Response:
        data = await _checkpoint_in(request)
        checkpoint = await self._disk.run(self._intake.heartbeats.admit, data, device_log)
        self._rates.count_request(checkpoint.device, time.monotonic())
        request.admit()
        answer = await self._disk.run(self._intake.heartbeats.accept, checkpoint, now_ms())
        self._metrics.heartbeats += 1
        return Response(content_type=CONTENT_TYPE_CHECKPOINT, body=answer)

    async def _admit(self, request: Request, digest: bytes) -> UploadClaim:
        claim = _claim_of(request, digest)
        await self._disk.run(self._intake.admit, claim)
        self._rates.count_request(claim.device, time.monotonic())
        return claim

    async def _serve_archive(self, request: Request, claim: UploadClaim) -> Response:
        async with self._locks.hold((claim.device, claim.archive)):
            receipt = await self._find_receipt(claim)
            if request.path.startswith(RECEIPTS_PATH):
                return _receipt_or_refusal(receipt)
            if request.method == "HEAD":
                return await self._offset_response(claim, is_stored=receipt is not None)
            length = _length_of(request, claim)
            if receipt is not None:
                return await self._repeat_receipt(request, claim, receipt)
            return await self._upload(request, claim, _offset_of(request), length)

    async def _find_receipt(self, claim: UploadClaim) -> bytes | None:
        receipt = await self._disk.run(self._intake.find_receipt, claim)
        if receipt is None and await self._disk.run(self._intake.landing.holds, claim.archive):
            receipt = await self._checks.run(self._intake.issue_missing_receipt, claim)
        return receipt

    async def _offset_response(self, claim: UploadClaim, *, is_stored: bool) -> Response:
        if is_stored:
            return Response(headers={UPLOAD_OFFSET: str(claim.size_bytes), UPLOAD_COMPLETE: COMPLETE})
        offset = await self._disk.run(self._intake.uploads.offset, claim)
        return Response(headers={UPLOAD_OFFSET: str(offset), UPLOAD_COMPLETE: INCOMPLETE})

    async def _repeat_receipt(self, request: Request, claim: UploadClaim, receipt: bytes) -> Response:
        """Read the body first, unless it is held back: many clients send all of it before they read the response."""
        if not request.body.is_held_back:
            async for piece in request.body:
                await self._slow_down(claim, len(piece))
        self._metrics.receipts_repeated += 1
        return _receipt_response(200, receipt, claim)

    async def _upload(self, request: Request, claim: UploadClaim, offset: int | None, length: int) -> Response:
        upload = await self._disk.run(self._intake.begin, claim, offset, length)
        try:
            await self._receive(request, claim, upload)
            if upload.missing_bytes:
                headers = {UPLOAD_OFFSET: str(upload.offset), UPLOAD_COMPLETE: INCOMPLETE}
                return Response(status=202, headers=headers)
            receipt = await self._checks.run(self._intake.complete, claim)
        finally:
            await self._disk.run(self._intake.uploads.close, upload)
        self._metrics.archives_stored += 1
        self._metrics.bytes_stored += claim.size_bytes
        log.info("archive stored; %s", describe(claim))
        return _receipt_response(201, receipt, claim)

    async def _receive(self, request: Request, claim: UploadClaim, upload: UploadFile) -> None:
        async for piece in request.body:
            await self._disk.run(upload.append, piece)
            await self._slow_down(claim, len(piece))

    async def _slow_down(self, claim: UploadClaim, received: int) -> None:
        """Stop reading for as long as the device is ahead of its rate; TCP makes it wait."""
        self._metrics.bytes_received += received
        wait_s = self._rates.count_bytes(claim.device, received, time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _check_method(request: Request, allowed: tuple[str, ...]) -> None:
    if request.method not in allowed:
        raise UploadRefused(Refusal.METHOD_NOT_ALLOWED, f"only {', '.join(allowed)} are allowed here")


async def _checkpoint_in(request: Request) -> bytes:
    """The body. Raises: UploadRefused if it is larger than any checkpoint."""
    if request.content_length is None:
        raise UploadRefused(Refusal.LENGTH_REQUIRED, "Content-Length is required")
    if request.content_length > MAX_CHECKPOINT_BYTES:
        raise UploadRefused(Refusal.TOO_LARGE, f"a checkpoint has at most {MAX_CHECKPOINT_BYTES} bytes")
    return await request.body.read()


def _claim_of(request: Request, digest: bytes) -> UploadClaim:
    """Raises: UploadRefused unless the request carries a valid claim to this archive."""
    value = request.headers.get("authorization")
    if value is None:
        raise UploadRefused(Refusal.CLAIM_MISSING, "the claim is missing; send Authorization: Headgate <claim>")
    try:
        claim = UploadClaim.from_header(value)
    except WireError as error:
        raise UploadRefused(Refusal.CLAIM_INVALID, str(error)) from error
    if claim.archive != digest:
        raise UploadRefused(Refusal.CLAIM_INVALID, "the claim is for another archive")
    return claim


def _length_of(request: Request, claim: UploadClaim) -> int:
    if request.content_length is None:
        raise UploadRefused(Refusal.LENGTH_REQUIRED, "Content-Length is required")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise UploadRefused(Refusal.BAD_REQUEST, "Content-Encoding is not supported; send the archive as it is")
    if request.content_length > claim.size_bytes:
        problem = f"{request.content_length} bytes are more than the {claim.size_bytes} of the claim"
        raise UploadRefused(Refusal.BAD_LENGTH, problem)
    return request.content_length


def _offset_of(request: Request) -> int | None:
    """None: from the first byte, whatever is stored."""
    if request.method == "PUT":
        if UPLOAD_OFFSET.lower() in request.headers:
            raise UploadRefused(
                Refusal.BAD_REQUEST, f"PUT begins at the first byte; PATCH continues from {UPLOAD_OFFSET}"
            )
        return None
    try:
        return offset_in_header(request.headers.get(UPLOAD_OFFSET.lower(), ""))
    except WireError as error:
        raise UploadRefused(Refusal.BAD_REQUEST, str(error)) from error


def _receipt_response(status: int, receipt: bytes, claim: UploadClaim) -> Response:
    headers = {UPLOAD_OFFSET: str(claim.size_bytes), UPLOAD_COMPLETE: COMPLETE}
    return Response(status=status, content_type=CONTENT_TYPE_RECEIPT, headers=headers, body=receipt)


def _receipt_or_refusal(receipt: bytes | None) -> Response:
    if receipt is None:
        raise UploadRefused(Refusal.NOT_STORED, "this archive is not stored here")
    return Response(content_type=CONTENT_TYPE_RECEIPT, body=receipt)
