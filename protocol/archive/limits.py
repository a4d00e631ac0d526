"""The limits of the archive format. A writer stays within them; a reader refuses archives beyond them."""

from protocol.strict_cbor import CborBounds

KIBI = 1024
MEBI = 1024 * KIBI

MAX_CHAIN_BYTES = 1 * KIBI  # of one chain key, in UTF-8
MAX_TEXT_BYTES = 4 * MEBI  # of one record
MAX_READINGS_PER_RECORD = 65_535

MAX_RECORDS_PER_BLOCK = 16_384
MAX_RAW_BLOCK_BYTES = 16 * MEBI  # decompressed
MAX_BLOCK_BYTES = 17 * MEBI  # compressed; incompressible input grows a little
DEFAULT_BLOCK_TARGET_BYTES = 1 * MEBI  # a block is closed at this size
# with one more record, and chain keys of four bytes per letter, still within a raw block
MAX_BLOCK_TARGET_BYTES = 2 * MEBI

MAX_BLOCKS = 16_384
MAX_RECORDS = 4 * MEBI
MAX_RAW_BYTES = 1024 * MEBI  # of all blocks, decompressed
MAX_CHAINS = 4_096
MAX_LOSSES = 4_096

MAX_HEADER_BYTES = 4 * KIBI
MAX_MANIFEST_BYTES = 16 * MEBI
HEADER_BOUNDS = CborBounds(max_bytes=MAX_HEADER_BYTES, max_items=64, max_depth=3)
MANIFEST_BOUNDS = CborBounds(max_bytes=MAX_MANIFEST_BYTES, max_items=256 * KIBI, max_depth=4)
RECEIPT_BOUNDS = CborBounds(max_bytes=1 * KIBI, max_items=64, max_depth=1)
