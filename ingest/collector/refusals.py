"""Turns errors into responses: every refusal has a code, a status and a text for people."""

import errno
import json
import logging
from typing import Final

from ingest.collector.errors import UploadRefused
from ingest.collector.metrics import Metrics
from protocol.errors import HeadgateError
from protocol.shipping import CONTENT_TYPE_PROBLEM, INCOMPLETE, UPLOAD_COMPLETE, UPLOAD_OFFSET, Refusal
from runtime.http import HttpError, Response

log = logging.getLogger(__name__)

_DISK_IS_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_CLOSING: Final = (400, 401, 403, 431)  # a client that is refused with one of these has to connect again
_REFUSALS: Final = {408: Refusal.TOO_SLOW, 413: Refusal.TOO_LARGE, 431: Refusal.HEAD_TOO_LARGE, 500: Refusal.FAULT}
BUSY_RETRY_S: Final = 30


class Refuser:
    """Turns errors into responses, and counts them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def refuse(self, error: HttpError) -> Response:
        if error.status == 503:
            return self.deny(UploadRefused(Refusal.BUSY, str(error), retry_after_s=BUSY_RETRY_S))
        return self.deny(UploadRefused(_REFUSALS.get(error.status, Refusal.BAD_REQUEST), str(error)))

    def deny(self, refused: UploadRefused) -> Response:
        self._metrics.refusals[refused.refusal] += 1
        refusal = refused.refusal
        headers: dict[str, str] = {}
        if refused.offset is not None:
            headers |= {UPLOAD_OFFSET: str(refused.offset), UPLOAD_COMPLETE: INCOMPLETE}
        if refused.retry_after_s is not None:
            headers["Retry-After"] = str(refused.retry_after_s)
        if refusal.status == 401:
            headers["WWW-Authenticate"] = "Headgate"
        if refusal.status in _CLOSING:
            headers["Connection"] = "close"
        body = json.dumps({"status": refusal.status, "code": refusal.code, "detail": refused.detail}).encode()
        return Response(status=refusal.status, content_type=CONTENT_TYPE_PROBLEM, headers=headers, body=body)


def fault(error: OSError | HeadgateError) -> UploadRefused:
    """The refusal for a failed disk or a damaged file. The log has the details, the client only the time to retry."""
    log.error("a request failed; problem=%s", error)
    if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
        return UploadRefused(Refusal.NO_SPACE, "the collector's disk is full", retry_after_s=300)
    return UploadRefused(Refusal.FAULT, "internal error of the collector; see its log", retry_after_s=60)
