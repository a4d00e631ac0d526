"""Who brought an encrypted archive. The collector cannot see whose it is, so it writes down in a receipt who said so.

`receipts/<device>/<sha256>.receipt`: an archive that one device made and only another one brought is in quarantine. One
without any receipt did not come through the collector, or came a moment ago, and is judged by its signatures alone.
"""

from pathlib import Path

from protocol.archive.receipt import Receipt
from protocol.errors import WireError
from protocol.shipping import MAX_RECEIPT_BYTES


def other_uploaders(receipts: Path, file_digest: str, device: bytes) -> list[str]:
    """The devices that have the receipt for this file, unless its own device has one. Bounded by how many devices are.

    Raises: OSError.
    """
    if _is_receipt(receipts / device.hex(), file_digest, device):
        return []
    return [f"0x{other.name}" for other in sorted(receipts.iterdir()) if _is_receipt(other, file_digest, None)]


def _is_receipt(folder: Path, file_digest: str, device: bytes | None) -> bool:
    try:
        with (folder / f"{file_digest}.receipt").open("rb") as file:
            receipt = Receipt.from_bytes(file.read(MAX_RECEIPT_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError, WireError):
        return False
    return receipt.archive.hex() == file_digest and device in (None, receipt.device)
