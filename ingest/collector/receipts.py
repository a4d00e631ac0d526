"""Receipts given: `receipts/<device>/<sha256>.receipt`. One that was given is never made anew.

A receipt outlives its archive in the landing area: whoever removes an archive from there answers for it, and a device
that asks again still gets the same receipt.
"""

from pathlib import Path

from nacl.signing import SigningKey

from ingest.collector.durable_files import create_file, make_folder
from protocol.archive import Receipt, sign_receipt
from protocol.shipping import MAX_RECEIPT_BYTES, UploadClaim

SUFFIX = ".receipt"


class Receipts:
    def __init__(self, folder: Path, key: SigningKey) -> None:
        make_folder(folder)
        self._folder = folder
        self._key = key

    @property
    def collector_key(self) -> bytes:
        return bytes(self._key.verify_key)

    def find(self, claim: UploadClaim) -> bytes | None:
        """The receipt as it was given. Raises: WireError if the file is damaged."""
        try:
            with self._path(claim).open("rb") as file:
                data = file.read(MAX_RECEIPT_BYTES + 1)
        except FileNotFoundError:
            return None
        return Receipt.from_bytes(data).to_bytes()

    def give(self, claim: UploadClaim, now_ms: int) -> bytes:
        """Sign and keep one. Call it only for an archive that is checked and durable."""
        path = self._path(claim)
        receipt = sign_receipt(
            archive=claim.archive,
            size_bytes=claim.size_bytes,
            device=claim.device,
            received_at_ms=now_ms,
            collector_key=self.collector_key,
            sign=lambda message: self._key.sign(message).signature,
        ).to_bytes()
        make_folder(path.parent)
        create_file(path, receipt)
        return receipt

    def _path(self, claim: UploadClaim) -> Path:
        return self._folder / claim.device.hex() / f"{claim.archive.hex()}{SUFFIX}"
