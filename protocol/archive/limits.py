"""Every bound of the archive format. A writer stays within them; a reader refuses what goes beyond."""

from protocol.strict_cbor import CborBounds

KIBI = 1024
MEBI = 1024 * KIBI

MAX_CHAIN_BYTES = 1 * KIBI  # of one chain key, in UTF-8
MAX_TEXT_BYTES = 4 * MEBI  # of one record

MAX_RECORDS_PER_BLOCK = 16_384
MAX_RAW_BLOCK_BYTES = 16 * MEBI  # decompressed
MAX_BLOCK_BYTES = 17 * MEBI  # compressed: input that cannot be compressed grows a little
DEFAULT_BLOCK_TARGET_BYTES = 1 * MEBI  # a block is closed when it holds this much
MAX_BLOCK_TARGET_BYTES = (
    2 * MEBI
)  # and one last record, and chain keys of four bytes per letter: still within a raw block

MAX_BLOCKS = 16_384
MAX_RECORDS = 4 * MEBI
MAX_RAW_BYTES = 1024 * MEBI  # all blocks together; what a reader can be made to decompress at most
MAX_CHAINS = 4_096
MAX_LANES = 256
MAX_LOSSES = 4_096

MAX_HEADER_BYTES = 4 * KIBI
MAX_MANIFEST_BYTES = 16 * MEBI
HEADER_BOUNDS = CborBounds(max_bytes=MAX_HEADER_BYTES, max_items=64, max_depth=3)
MANIFEST_BOUNDS = CborBounds(max_bytes=MAX_MANIFEST_BYTES, max_items=256 * KIBI, max_depth=4)
RECEIPT_BOUNDS = CborBounds(max_bytes=1 * KIBI, max_items=32, max_depth=1)
