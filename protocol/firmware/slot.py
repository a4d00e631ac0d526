"""What a slot of the device's flash holds: for the factory, which fills the first one without a link.

A slot is a firmware file whose image was moved to the second sector. The rest of the first sector stays erased: the
device marks there, sector by sector, how much of an image has arrived. A slot from the factory needs no marks, for the
boot loader asks for the signature and the digest, and for nothing else.
"""

from protocol.firmware.package import Package

ERASED = b"\xff"
MIN_SECTOR_BYTES = 512  # the head, and room for marks


def slot_bytes(package: Package, *, sector_bytes: int) -> bytes:
    """The beginning of a slot with this firmware in it; what follows may be anything."""
    if sector_bytes < MIN_SECTOR_BYTES:
        raise ValueError(f"sectors of {sector_bytes} bytes; a slot needs {MIN_SECTOR_BYTES} or more")
    return package.head().ljust(sector_bytes, ERASED) + package.image
