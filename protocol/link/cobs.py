"""Consistent overhead byte stuffing (COBS): encodes bytes without zeros, so that a zero always ends a frame.

The data is split at its zeros. In front of each piece stands its length plus one, which replaces the zero after it. A
piece of 254 bytes or more is split into blocks of 254, each with the code 255 in front and no zero after it. The
overhead is one byte, and one more for every 254.
"""

from typing import Final

from protocol.errors import Corrupt, Truncated

FULL_BLOCK_BYTES: Final = 254
_FULL_CODE: Final = 255


def stuff(data: bytes) -> bytes:
    out = bytearray()
    piece = b""
    for piece in data.split(b"\0"):
        rest = piece
        while len(rest) >= FULL_BLOCK_BYTES:
            out.append(_FULL_CODE)
            out += rest[:FULL_BLOCK_BYTES]
            rest = rest[FULL_BLOCK_BYTES:]
        out.append(len(rest) + 1)
        out += rest
    if piece and len(piece) % FULL_BLOCK_BYTES == 0:
        out.pop()  # nothing follows the full block, so no code is needed
    return bytes(out)


def unstuff(data: bytes) -> bytes:
    """The inverse of `stuff`; also for encoders that leave out the last code after a full block.

    Raises: Truncated when a block runs past the end, Corrupt for a zero or for no bytes at all.
    """
    if not data:
        raise Corrupt("no bytes to unstuff")
    if 0 in data:
        raise Corrupt("a zero within stuffed bytes", offset=data.index(0))
    out = bytearray()
    offset, end = 0, len(data)
    while offset < end:
        code = data[offset]
        out += data[offset + 1 : offset + code]
        offset += code
        if code != _FULL_CODE and offset < end:
            out.append(0)
    if offset > end:
        raise Truncated(f"the last block lacks {offset - end} bytes", offset=end)
    return bytes(out)
