"""Any bytes, as an archive, as a part of one and as an encrypted file, give values or a `WireError`.

Random bytes never get past a signature, so an input is also taken as the content of a block and as the manifest of an
archive that is signed with a good key: what a hostile device could send.
"""

import contextlib

from nacl.public import PrivateKey

from protocol.archive.block import compressor, decode_block, decompress, encode_block
from protocol.archive.encryption import Decryptor, Encryptor, derive_encryption_keys
from protocol.archive.layout import PREAMBLE, SIGNATURE, FrameKind, bytes_to_sign, encode_frame
from protocol.archive.manifest import Manifest
from protocol.archive.records import Columns
from protocol.errors import WireError
from tests.support.archives import HEADER, LOSS, read_archive, record, sign, write_archive

_START = PREAMBLE + encode_frame(FrameKind.HEADER, HEADER.to_bytes())
_COLLECTOR = PrivateKey(b"k" * 32)
_RECORDS = [record(number) for number in range(4)]
_ARCHIVE = write_archive(_RECORDS, [LOSS], block_target_bytes=100)
_ENCRYPTOR = Encryptor(derive_encryption_keys(b"s" * 32, b"a" * 32, _COLLECTOR.public_key), _COLLECTOR.public_key)
SEEDS = [
    _ARCHIVE,
    encode_block(Columns.of(_RECORDS)),
    compressor(1).compress(encode_block(Columns.of(_RECORDS))),
    read_archive(_ARCHIVE)[0].manifest.to_bytes(),
    _ENCRYPTOR.begin() + _ENCRYPTOR.update(b"some content") + _ENCRYPTOR.finish(),
]


def fuzz_one(data: bytes) -> None:
    for read in (_as_file, _as_block, _as_compressed, _as_manifest, _as_signed, _as_encrypted):
        with contextlib.suppress(WireError):
            read(data)


def _as_file(data: bytes) -> None:
    read_archive(data)


def _as_block(data: bytes) -> None:
    assert encode_block(decode_block(data)) == data


def _as_compressed(data: bytes) -> None:
    decompress(data)


def _as_manifest(data: bytes) -> None:
    assert Manifest.from_bytes(data).to_bytes() == data


def _as_signed(data: bytes) -> None:
    frame = encode_frame(FrameKind.BLOCK, compressor(1).compress(data))
    signature = SIGNATURE.pack(len(_START) + len(frame), sign(bytes_to_sign(data)))
    _as_file(_START + frame + encode_frame(FrameKind.MANIFEST, data) + encode_frame(FrameKind.SIGNATURE, signature))


def _as_encrypted(data: bytes) -> None:
    decryptor = Decryptor(_COLLECTOR)
    list(decryptor.feed(data))
    decryptor.finish()
