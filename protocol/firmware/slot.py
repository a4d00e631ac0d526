"""The content of a slot of the device's flash, for programming the first one in the factory without a link.

A slot is a firmware file whose image is moved to the second sector. The rest of the first sector stays erased: the
device marks there, sector by sector, how much of an image it has received. A slot from the factory needs no marks,
because the boot loader checks only the signature and the digest.
"""

from protocol.firmware.package import Package

ERASED = b"\xff"
MIN_SECTOR_BYTES = 512  # the head, and space for marks


def slot_bytes(package: Package, *, sector_bytes: int) -> bytes:
    """The beginning of a slot with this firmware; the rest of the slot does not matter."""
    if sector_bytes < MIN_SECTOR_BYTES:
        raise ValueError(f"sectors of {sector_bytes} bytes; a slot needs {MIN_SECTOR_BYTES} or more")
    return package.head().ljust(sector_bytes, ERASED) + package.image
