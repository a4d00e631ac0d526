"""zstd, one frame per block, bounded on the way out."""

import zstandard

from protocol.archive.errors import CorruptArchive
from protocol.archive.limits import MAX_RAW_BLOCK_BYTES

DEFAULT_ZSTD_LEVEL = 3


def compressor(level: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)


def decompress(payload: bytes) -> bytes:
    """The content of exactly one frame that declares its size.

    The declared size is checked before anything is allocated, and the library fills no more than it: a frame that lies
    is an error. Raises: CorruptArchive.
    """
    try:
        declared = zstandard.get_frame_parameters(payload).content_size
        if not 1 <= declared <= MAX_RAW_BLOCK_BYTES:  # an absent size is a huge number
            raise CorruptArchive(f"block declares {declared} bytes, not within 1..{MAX_RAW_BLOCK_BYTES}")
        raw = zstandard.ZstdDecompressor().decompress(payload, max_output_size=declared, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptArchive(f"block cannot be decompressed: {error}") from error
    if len(raw) != declared:
        raise CorruptArchive(f"block declares {declared} bytes and holds {len(raw)}")
    return raw
