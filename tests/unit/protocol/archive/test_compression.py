import pytest
import zstandard

from protocol.archive.block import compressor, decompress
from protocol.archive.errors import CorruptArchive
from protocol.archive.limits import MAX_RAW_BLOCK_BYTES

CONTENT = b"some content, some content, some content"


def test_round_trip() -> None:
    assert decompress(compressor(3).compress(CONTENT)) == CONTENT


def test_a_bomb_is_refused_by_its_declared_size() -> None:
    bomb = compressor(3).compress(bytes(MAX_RAW_BLOCK_BYTES + 1))
    assert len(bomb) < 2048
    with pytest.raises(CorruptArchive, match=f"declares {MAX_RAW_BLOCK_BYTES + 1} bytes"):
        decompress(bomb)


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    honest = bytearray(compressor(3).compress(bytes(100_000)))
    at = honest.index((100_000).to_bytes(4, "little"))
    honest[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(CorruptArchive):
        decompress(bytes(honest))


def test_a_frame_that_does_not_declare_its_size_is_refused() -> None:
    with pytest.raises(CorruptArchive, match="declares"):
        decompress(zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT))


@pytest.mark.parametrize("garbage", [b"", b"not zstd at all", bytes(100)])
def test_what_is_not_zstd_is_corrupt(garbage: bytes) -> None:
    with pytest.raises(CorruptArchive):
        decompress(garbage)


def test_a_second_frame_or_a_cut_one_is_corrupt() -> None:
    frame = compressor(3).compress(CONTENT)
    for broken in (frame + frame, frame + b"\0", frame[:-1]):
        with pytest.raises(CorruptArchive):
            decompress(broken)
