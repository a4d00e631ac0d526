"""Signed firmware files: an image, its manifest and the signature of its builder.

    HGFIRM ‖ manifest ‖ signature ‖ image

The manifest names the board, the version, the size and digest of the image, and a counter: a device never installs a
lower one. The builder's Ed25519 key signs it. The host checks all of it before it sends a byte, and the device checks
all of it again before it runs the image. `docs/wire-formats.md` specifies every byte.
"""

from protocol.firmware.manifest import (
    MAX_COUNTER,
    MAX_IMAGE_BYTES,
    MAX_NAME_BYTES,
    SIGNATURE_BYTES,
    Manifest,
    is_signed_by,
    sign_manifest,
)
from protocol.firmware.package import MAX_PACKAGE_BYTES, Package, package_image
from protocol.firmware.slot import slot_bytes

__all__ = [
    "MAX_COUNTER",
    "MAX_IMAGE_BYTES",
    "MAX_NAME_BYTES",
    "MAX_PACKAGE_BYTES",
    "SIGNATURE_BYTES",
    "Manifest",
    "Package",
    "is_signed_by",
    "package_image",
    "sign_manifest",
    "slot_bytes",
]
