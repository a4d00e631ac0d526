"""A collector in a thread, just true enough to the shipping protocol to test a device against; faults on demand."""

import hashlib
import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from nacl.signing import SigningKey

from protocol.archive.receipt import Receipt
from protocol.devicelog.answer import AnswerStatement, LogStatus, sign_answer
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import (
    ARCHIVES_PATH,
    COMPLETE,
    INCOMPLETE,
    RECEIPTS_PATH,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    Refusal,
    UploadClaim,
    digest_in_path,
    log_in_path,
)
from tests.support.device_logs import make_receipt

KEY: Final = SigningKey(b"\x09" * 32)


class SmallCollector:
    def __init__(self) -> None:
        self.parts: dict[bytes, bytearray] = {}
        self.stored: dict[bytes, bytes] = {}
        self.requests: list[tuple[str, int]] = []  # method and offset
        self.refuse_with: Refusal | None = None
        self.part_answer: tuple[int, dict[str, str], bytes] | None = None  # to whatever part comes
        self.drop_after_parts: int | None = None  # then the connection is cut once
        self.receipt_key = KEY
        self.checkpoints: list[Checkpoint] = []
        self.answer_with: dict[str, Any] = {}  # fields of the answer to a checkpoint
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "SmallCollector":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def receipt_for(self, claim: UploadClaim) -> Receipt:
        return make_receipt(
            archive=claim.archive, size_bytes=claim.size_bytes, device=claim.device, key=self.receipt_key
        )

    def answer_to(self, checkpoint: Checkpoint) -> bytes:
        """That it holds everything, unless a test requires something else."""
        statement = AnswerStatement(
            checkpoint=hashlib.sha256(checkpoint.to_bytes()).digest(),
            now_ms=1_700_000_000_000,
            log=checkpoint.log,
            held_size=checkpoint.size,
            held_root=checkpoint.root,
            missing=(),
            status=LogStatus.OK,
            collector_key=bytes(self.receipt_key.verify_key),
        )
        changed = replace(statement, **self.answer_with)
        return sign_answer(changed, lambda message: self.receipt_key.sign(message).signature).to_bytes()

    def _handler(collector) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: N805 - the handler needs its own self
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._take(self._tell_offset)

            def do_GET(self) -> None:
                self._take(self._tell_receipt)

            def do_PUT(self) -> None:
                if log_in_path(self.path) is not None:
                    self._take_checkpoint()
                else:
                    self._take(self._take_part)

            def _take_checkpoint(self) -> None:
                checkpoint = Checkpoint.from_bytes(self.rfile.read(int(self.headers["Content-Length"])))
                assert log_in_path(self.path) == checkpoint.log
                collector.checkpoints.append(checkpoint)
                if collector.refuse_with is not None:
                    body = json.dumps({"code": collector.refuse_with.code}).encode()
                    self._answer(collector.refuse_with.status, {}, body)
                else:
                    self._answer(200, {}, collector.answer_to(checkpoint))

            def do_PATCH(self) -> None:
                self._take(self._take_part)

            def log_message(self, *_: object) -> None:
                pass

            def _take(self, act: Callable[[UploadClaim], None]) -> None:
                offset = int(self.headers.get(UPLOAD_OFFSET, 0))
                collector.requests.append((self.command, offset))
                claim = UploadClaim.from_header(self.headers["Authorization"])
                prefix = RECEIPTS_PATH if self.command == "GET" else ARCHIVES_PATH
                assert digest_in_path(self.path, prefix) == claim.archive
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if collector.refuse_with is not None:
                    self._answer(
                        collector.refuse_with.status, {}, json.dumps({"code": collector.refuse_with.code}).encode()
                    )
                    return
                if collector.part_answer is not None and self.command != "HEAD":
                    self._answer(*collector.part_answer)
                    return
                self._body = body
                act(claim)

            def _tell_offset(self, claim: UploadClaim) -> None:
                is_complete = claim.archive in collector.stored
                there = len(collector.parts.get(claim.archive, b""))
                self._answer(200, {UPLOAD_OFFSET: str(there), UPLOAD_COMPLETE: COMPLETE if is_complete else INCOMPLETE})

            def _tell_receipt(self, claim: UploadClaim) -> None:
                self._answer(200, {}, collector.receipt_for(claim).to_bytes())

            def _take_part(self, claim: UploadClaim) -> None:
                if self.command == "PUT":
                    collector.parts[claim.archive] = bytearray()
                there = collector.parts.setdefault(claim.archive, bytearray())
                if len(there) != int(self.headers.get(UPLOAD_OFFSET, 0)):
                    refusal = Refusal.OFFSET_MISMATCH
                    self._answer(refusal.status, {}, json.dumps({"code": refusal.code}).encode())
                    return
                there += self._body
                if collector.drop_after_parts == 0:
                    collector.drop_after_parts = None
                    self.close_connection = True
                    return
                if collector.drop_after_parts is not None:
                    collector.drop_after_parts -= 1
                if len(there) == claim.size_bytes:
                    collector.stored[claim.archive] = bytes(there)
                    self._answer(201, {UPLOAD_COMPLETE: COMPLETE}, collector.receipt_for(claim).to_bytes())
                else:
                    self._answer(202, {UPLOAD_OFFSET: str(len(there)), UPLOAD_COMPLETE: INCOMPLETE})

            def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        return Handler
