import dataclasses
from pathlib import Path

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.firmware import Package, is_signed_by, slot_bytes
from tests.support.firmware_samples import BUILDER_KEY, package

TINY = Path(__file__).parents[3] / "vectors" / "firmware" / "tiny.hgfw"


def test_the_worked_example_is_read_for_ever() -> None:
    tiny = Package.from_bytes(TINY.read_bytes())
    assert (tiny.manifest.board, tiny.manifest.version, tiny.manifest.counter) == ("mps2-an385", "1.2.3", 7)
    assert tiny.image == b"tiny firmware\n"
    assert is_signed_by(BUILDER_KEY, tiny.manifest, tiny.signature)
    assert tiny.to_bytes() == TINY.read_bytes()


def test_every_beginning_of_a_package_is_truncated() -> None:
    data = package().to_bytes()
    for end in range(len(data)):
        with pytest.raises(Truncated):
            Package.from_bytes(data[:end])


def test_any_changed_byte_gives_another_signature_or_an_error() -> None:
    data = package().to_bytes()
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        try:
            found = Package.from_bytes(changed)
        except WireError:
            continue
        assert not is_signed_by(BUILDER_KEY, found.manifest, found.signature), f"byte {place}"


@pytest.mark.parametrize(
    ("place", "byte", "error", "problem"),
    [
        (0, b"X", Corrupt, "does not begin with HGFIRM"),
        (7, b"\x02", Unsupported, "version 2"),
        (8, b"\x01", Corrupt, "at most 146"),
    ],
)
def test_a_file_of_another_kind_or_version_is_refused(
    place: int, byte: bytes, error: type[WireError], problem: str
) -> None:
    data = package().to_bytes()
    with pytest.raises(error, match=problem):
        Package.from_bytes(data[:place] + byte + data[place + 1 :])


def test_an_image_with_a_byte_more_or_another_digest_is_refused() -> None:
    data = package().to_bytes()
    with pytest.raises(Corrupt, match="6 bytes, the manifest states 5"):
        Package.from_bytes(data + b"x")
    with pytest.raises(Corrupt, match="their digests differ"):
        Package.from_bytes(data[:-1] + b"x")
    with pytest.raises(ValueError, match="signature of 3 bytes"):
        dataclasses.replace(package(), signature=b"abc")


def test_an_image_does_not_show_itself_in_a_repr() -> None:
    assert "image" not in repr(package())


def test_a_slot_holds_the_head_and_then_in_the_next_sector_the_image() -> None:
    signed = package()
    content = slot_bytes(signed, sector_bytes=4096)
    assert content.startswith(signed.head() + b"\xff")
    assert content[4096:] == signed.image
    with pytest.raises(ValueError, match="512 or more"):
        slot_bytes(signed, sector_bytes=256)
