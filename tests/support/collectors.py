"""A real collector on a real socket for tests, and the little a device needs to speak to it."""

import asyncio
import dataclasses
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nacl.public import PrivateKey, PublicKey
from nacl.signing import SigningKey

from ingest.collector.devices import Device
from ingest.collector.intake import Intake
from ingest.collector.server import Collector
from ingest.collector.settings import Folders, Limits, Settings, TlsFiles
from protocol.archive.encryption import Encryptor, derive_encryption_keys
from protocol.archive.receipt import Receipt
from protocol.binding import Binding
from protocol.devicelog.answer import HeartbeatAnswer
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import (
    UPLOAD_OFFSET,
    ClaimStatement,
    UploadClaim,
    archive_path,
    checkpoint_path,
    receipt_path,
    sign_claim,
)
from tests.support.archives import BINDING, entry_of, record, sign, write_archive
from tests.support.patience import PATIENCE_S

SIGNING_KEY = SigningKey(bytes(range(65, 97)))
DECRYPTION_KEY = PrivateKey(bytes(range(97, 129)))
COLLECTOR_KEY = bytes(SIGNING_KEY.verify_key)
PATIENT = Limits(min_free_bytes=0)
ARCHIVE = write_archive([record(number) for number in range(200)])


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        code: str = json.loads(self.body)["code"]
        return code

    @property
    def offset(self) -> int:
        return int(self.headers["upload-offset"])

    @property
    def receipt(self) -> Receipt:
        return Receipt.from_bytes(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCollector:
    host: str
    port: int
    folders: Folders
    intake: Intake

    def landed(self) -> dict[str, bytes]:
        """The archives in the landing area."""
        return {path.name: path.read_bytes() for path in self.folders.landing.glob("*.hga")}

    def parts(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.folders.uploads.glob("*/*.part")}

    def receipts(self) -> list[Path]:
        return sorted(self.folders.receipts.glob("*/*.receipt"))

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """One request on a connection of its own; underscores in names of headers become hyphens."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            return read_reply(client.getresponse())
        finally:
            client.close()

    def put(self, data: bytes, claim: UploadClaim | None = None) -> Reply:
        claim = claim or claim_for(data)
        return self.ask("PUT", archive_path(claim.archive), data, Authorization=claim.to_header())

    def patch(self, data: bytes, offset: int, claim: UploadClaim) -> Reply:
        headers = {"Authorization": claim.to_header(), UPLOAD_OFFSET: str(offset)}
        return self.ask("PATCH", archive_path(claim.archive), data, **headers)

    def head(self, claim: UploadClaim) -> Reply:
        return self.ask("HEAD", archive_path(claim.archive), Authorization=claim.to_header())

    def get_receipt(self, claim: UploadClaim) -> Reply:
        return self.ask("GET", receipt_path(claim.archive), Authorization=claim.to_header())

    def beat(self, checkpoint: Checkpoint) -> HeartbeatAnswer:
        reply = self.put_checkpoint(checkpoint.to_bytes(), checkpoint.log)
        assert reply.status == 200, reply
        return HeartbeatAnswer.from_bytes(reply.body)

    def put_checkpoint(self, data: bytes, log: bytes) -> Reply:
        return self.ask("PUT", checkpoint_path(log), data)

    def metric(self, name: str) -> int:
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"headgate_collector_{name} ")))


def read_reply(response: http.client.HTTPResponse) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def claim_for(data: bytes, *, collector_key: bytes = COLLECTOR_KEY) -> UploadClaim:
    return sign_claim(claim_statement(data, collector_key=collector_key), sign)


def claim_of(sha256: bytes, size_bytes: int, *, collector_key: bytes = COLLECTOR_KEY) -> UploadClaim:
    statement = claim_statement(sha256, collector_key=collector_key)
    return sign_claim(dataclasses.replace(statement, archive=sha256, size_bytes=size_bytes), sign)


def claim_statement(data: bytes, *, binding: Binding = BINDING, collector_key: bytes = COLLECTOR_KEY) -> ClaimStatement:
    """What a device claims that uploads this archive."""
    return ClaimStatement(
        binding=binding,
        archive=hashlib.sha256(data).digest(),
        size_bytes=max(1, len(data)),
        entry=entry_of(data),
        collector_key=collector_key,
    )


def head_of(method: str, claim: UploadClaim, length: int, *more: str) -> bytes:
    """A request's head as raw bytes, for clients that misbehave in its body."""
    lines = [
        f"{method} {archive_path(claim.archive)} HTTP/1.1",
        "Host: test",
        f"Authorization: {claim.to_header()}",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def encrypt(data: bytes, recipient: PublicKey) -> bytes:
    encryptor = Encryptor(derive_encryption_keys(b"s" * 32, hashlib.sha256(data).digest(), recipient), recipient)
    return encryptor.begin() + encryptor.update(data) + encryptor.finish()


def make_folders(root: Path) -> Folders:
    return Folders(landing=root / "landing", uploads=root / "landing.uploads", state=root / "state")


@contextmanager
def running_collector(
    root: Path, limits: Limits = PATIENT, tls: TlsFiles | None = None, *, enrolled: bool = True
) -> Iterator[RunningCollector]:
    """Served from a thread of its own until the block ends."""
    folders = make_folders(root)
    intake = Intake(folders, limits, SIGNING_KEY, bytes(DECRYPTION_KEY.public_key))
    if enrolled:
        intake.allow_list.enrol(Device(address=BINDING.address, archive_key=BINDING.archive_key, enrolled_at_ms=1))
    settings = Settings(host="127.0.0.1", port=0, folders=folders, limits=limits, tls=tls)
    collector = Collector(settings, intake)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    urls: list[str] = []

    def announce(url: str) -> None:
        urls.append(url)
        ready.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(collector.run(announce),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        port = int(urls[0].rpartition(":")[2])
        yield RunningCollector(host="127.0.0.1", port=port, folders=folders, intake=intake)
    finally:
        loop.call_soon_threadsafe(collector.stop)
        thread.join(30)
        assert not thread.is_alive(), "the collector did not stop"
        loop.close()
        assert collector.metrics.http.faults == 0, "a fault of the collector; the log has its traceback"
