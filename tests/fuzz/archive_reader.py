"""Fuzz both archive readers and the opener of sealed files. `python -m tests.fuzz.archive_reader -runs=100000`

Random bytes never get past a signature, so an input is also taken as the content of a block and as the manifest of an
archive that is signed with a good key: what a hostile device could send.
"""

import sys

from nacl.public import PrivateKey

from protocol.archive import Manifest, Opener, open_archive
from protocol.archive.block import decode_block
from protocol.archive.compression import compressor
from protocol.archive.layout import PREAMBLE, SIGNATURE, FrameKind, bytes_to_sign, encode_frame
from protocol.errors import WireError
from tests.archives import HEADER, read_archive, read_at_of, sign

START = PREAMBLE + encode_frame(FrameKind.HEADER, HEADER.to_bytes())
COLLECTOR = PrivateKey(b"k" * 32)


def fuzz_one(data: bytes) -> None:
    for attempt in (_as_block_content, _as_manifest, _as_signed_block, _as_file, _as_sealed):
        try:
            attempt(data)
        except WireError:
            continue


def _as_block_content(data: bytes) -> None:
    for record in decode_block(data):
        assert len(record.text) <= len(data)


def _as_manifest(data: bytes) -> None:
    assert Manifest.from_bytes(data).to_bytes() == data


def _as_signed_block(data: bytes) -> None:
    frame = encode_frame(FrameKind.BLOCK, compressor(1).compress(data))
    _as_file(_signed(frame, data))


def _as_file(data: bytes) -> None:
    read_archive(data)
    list(open_archive(read_at_of(data), len(data)).blocks())


def _as_sealed(data: bytes) -> None:
    opener = Opener(COLLECTOR)
    list(opener.feed(data))
    opener.finish()


def _signed(frame: bytes, manifest: bytes) -> bytes:
    signature = SIGNATURE.pack(len(START) + len(frame), sign(bytes_to_sign(manifest)))
    return START + frame + encode_frame(FrameKind.MANIFEST, manifest) + encode_frame(FrameKind.SIGNATURE, signature)


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
