"""Stored receipts: `receipts/<device>/<sha256>.receipt`. The same receipt is sent every time; it is signed again, with
its original time, only if the collector has a new key.

A receipt stays when its archive is removed from the landing area, so a device that asks again gets the same receipt.
"""

from dataclasses import replace
from pathlib import Path

from nacl.signing import SigningKey

from protocol.archive.receipt import Receipt, ReceiptStatement, sign_receipt, unsigned
from protocol.devicelog.frontier import Frontier
from protocol.shipping import MAX_RECEIPT_BYTES, UploadClaim
from runtime.durable_files import PRIVATE_DIRECTORY, create_file, make_directory, replace_file, sync_directory

SUFFIX = ".receipt"


class Receipts:
    def __init__(self, folder: Path, key: SigningKey) -> None:
        make_directory(folder, mode=PRIVATE_DIRECTORY)
        self._folder = folder
        self._key = key

    @property
    def collector_key(self) -> bytes:
        return bytes(self._key.verify_key)

    def find(self, claim: UploadClaim) -> bytes | None:
        """The stored receipt; durable, also if the process that wrote it was killed. Raises: WireError if damaged."""
        path = self._path(claim)
        try:
            with path.open("rb") as file:
                receipt = Receipt.from_bytes(file.read(MAX_RECEIPT_BYTES + 1))
        except FileNotFoundError:
            return None
        sync_directory(path.parent)
        if receipt.collector_key != self.collector_key:
            receipt = self._sign(replace(unsigned(receipt), collector_key=self.collector_key))
            replace_file(path, receipt.to_bytes())
        return receipt.to_bytes()

    def issue(self, claim: UploadClaim, held: Frontier, now_ms: int) -> bytes:
        """Sign and store a receipt. Call it only for an archive that is checked, durable and in the state of its log.

        `held`: what is held of that log without a hole.
        """
        path = self._path(claim)
        statement = ReceiptStatement(
            archive=claim.archive,
            size_bytes=claim.size_bytes,
            device=claim.device,
            log=claim.entry.log,
            number=claim.entry.number,
            held_size=held.size,
            held_root=held.root,
            received_at_ms=now_ms,
            collector_key=self.collector_key,
        )
        receipt = self._sign(statement).to_bytes()
        make_directory(path.parent, mode=PRIVATE_DIRECTORY)
        create_file(path, receipt)
        return receipt

    def _sign(self, statement: ReceiptStatement) -> Receipt:
        return sign_receipt(statement, self.sign)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message).signature

    def _path(self, claim: UploadClaim) -> Path:
        return self._folder / claim.device.hex() / f"{claim.archive.hex()}{SUFFIX}"
