"""Firmware to update to and from. The keys are for tests: anyone can guess them."""

import random

from nacl.signing import SigningKey

from protocol.firmware import Package, package_image

BUILDER = SigningKey(b"f" * 32)
BUILDER_KEY = bytes(BUILDER.verify_key)
UNKNOWN = SigningKey(b"x" * 32)


def sign(message: bytes) -> bytes:
    return BUILDER.sign(message).signature


def image(size_bytes: int, *, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def package(
    content: bytes = b"image",
    *,
    board: str = "bench-1",
    version: str = "1.0.0",
    counter: int = 1,
    by: SigningKey = BUILDER,
) -> Package:
    return package_image(
        content, board=board, version=version, counter=counter, sign=lambda message: by.sign(message).signature
    )
