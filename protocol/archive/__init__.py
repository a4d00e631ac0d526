"""Archives: immutable files of signed messages, named by their SHA-256, signed by the device that wrote them.

    HGARCH ‖ header ‖ block … ‖ manifest ‖ signature

The header says whose it is, blocks hold the messages' exact texts, the manifest accounts for every one of them and
holds the digests of all before it, and the device's Ed25519 key signs the manifest: no byte of a file can change
unnoticed. A file may be sealed for one collector. The collector answers with a signed receipt. `docs/wire-formats.md`
gives every byte.
"""

from typing import TYPE_CHECKING

from protocol.on_use import names_on_use
from protocol.reference import Reference

if TYPE_CHECKING:
    from protocol.archive.binding import Binding, binding_statement, sign_binding
    from protocol.archive.block_frame import Block
    from protocol.archive.errors import CorruptArchive
    from protocol.archive.header import Header
    from protocol.archive.manifest import BlockEntry, ChainEntry, LaneEntry, Manifest
    from protocol.archive.random_access import OpenArchive, open_archive
    from protocol.archive.reader import Archive, ArchiveReader
    from protocol.archive.receipt import Receipt, sign_receipt
    from protocol.archive.records import Columns, Loss, Record
    from protocol.archive.sealing import Opener, Sealer, SealingKeys, derive_sealing_keys, is_sealed, sealed_for
    from protocol.archive.writer import ArchiveWriter

__all__ = [
    "Archive",
    "ArchiveReader",
    "ArchiveWriter",
    "Binding",
    "Block",
    "BlockEntry",
    "ChainEntry",
    "Columns",
    "CorruptArchive",
    "Header",
    "LaneEntry",
    "Loss",
    "Manifest",
    "OpenArchive",
    "Opener",
    "Receipt",
    "Record",
    "Reference",
    "Sealer",
    "SealingKeys",
    "binding_statement",
    "derive_sealing_keys",
    "is_sealed",
    "open_archive",
    "sealed_for",
    "sign_binding",
    "sign_receipt",
]

_MODULES = (
    "binding",
    "records",
    "block_frame",
    "errors",
    "header",
    "manifest",
    "receipt",
    "sealing",
    "writer",
    "reader",
    "random_access",
)
if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__, _MODULES, __all__)
