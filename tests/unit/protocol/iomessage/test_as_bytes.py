import pytest

from protocol.errors import Corrupt, Truncated, Unsupported
from protocol.iomessage import IoMessage, Quirk
from tests.support.iomessage_samples import EVERY_FIELD, message


def with_timestamp_bytes(timestamp: bytes) -> bytes:
    """A whole message in which nothing but the timestamp stands."""
    header = bytearray(33)
    header[1], header[9] = 4, len(timestamp)
    return bytes(header) + timestamp


def test_every_field_comes_back() -> None:
    full = message(**EVERY_FIELD)
    assert IoMessage.from_bytes(full.to_bytes()) == full


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (None, ""),
        (0, "00"),
        (255, "ff"),
        (256, "0100"),
        (2**48 - 1, "ffffffffffff"),
        (2**48, "0001000000000000"),  # seven bytes would do, but some decoders take only eight
        (2**64 - 1, "ffffffffffffffff"),
    ],
)
def test_integers_take_as_few_bytes_as_hold_them(number: int | None, encoded: str) -> None:
    data = message(sequence_number=number).to_bytes()
    assert data[6] == len(encoded) // 2
    assert data[33 + 44 : 33 + 44 + data[6]].hex() == encoded


@pytest.mark.parametrize("width", range(9))
def test_any_integer_width_up_to_eight_is_read(width: int) -> None:
    assert IoMessage.from_bytes(with_timestamp_bytes(bytes(width))).timestamp == (0 if width else None)


def test_an_integer_wider_than_eight_bytes_is_refused_at_its_length() -> None:
    with pytest.raises(Corrupt, match=r"timestamp is 9 bytes wide; the limit is 8 \(at byte 9\)"):
        IoMessage.from_bytes(with_timestamp_bytes(bytes(9)))


def test_the_agent_profile_has_fixed_widths_and_no_zero() -> None:
    data = message(sequence_number=1, sequence_total=0, priority=5, chain_position=7, difficulty_target=9).to_bytes(
        profile="agent"
    )
    assert (data[6], data[7], data[8], data[9], data[15], data[22]) == (4, 0, 1, 8, 8, 4)


def test_the_agent_profile_refuses_what_does_not_fit() -> None:
    with pytest.raises(Unsupported, match="256 does not fit the 1 bytes"):
        message(priority=256).to_bytes(profile="agent")


def test_a_time_written_as_a_double_is_read_and_flagged() -> None:
    read = IoMessage.from_bytes(with_timestamp_bytes(bytes.fromhex("4278bcfe5687b000")))
    assert read.timestamp == 1_700_000_000_123
    assert read.quirks == Quirk.DOUBLE_INTEGER


@pytest.mark.parametrize("bits", ["7ff0000000000000", "7fffffffffffffff", "4278bcfe5687b001", "4340000000000000"])
def test_eight_bytes_that_are_no_whole_double_stay_an_integer(bits: str) -> None:
    read = IoMessage.from_bytes(with_timestamp_bytes(bytes.fromhex(bits)))
    assert read.timestamp == int(bits, 16)
    assert read.quirks is Quirk.NONE


def test_text_that_is_not_utf8_is_read_as_latin1_and_flagged() -> None:
    data = message(tag="@@", publisher="Zürich").to_bytes().replace(b"@@", b"\xb0C")
    read = IoMessage.from_bytes(data)
    assert (read.tag, read.publisher) == ("°C", "Zürich")
    assert read.quirks == Quirk.LATIN1_TEXT


def test_latin1_text_that_is_too_long_in_utf8_cannot_be_written_again() -> None:
    read = IoMessage.from_bytes(message(id="x" * 200).to_bytes().replace(b"x" * 200, b"\xe9" * 200))
    assert read.id == "é" * 200
    with pytest.raises(Corrupt, match="id is 400 bytes long in UTF-8; the limit is 255"):
        read.to_bytes()


def test_other_versions_are_refused_before_anything_else() -> None:
    for data in (b"\x00\x05", b"\x00\x05" + bytes(31), b"\x04\x00" + bytes(100)):
        with pytest.raises(Unsupported, match=r"version \d+ is not known.*at byte 0"):
            IoMessage.from_bytes(data)


def test_trailing_bytes_are_refused_where_they_begin() -> None:
    data = message().to_bytes()
    with pytest.raises(Corrupt, match=f"1 bytes follow the message .at byte {len(data)}"):
        IoMessage.from_bytes(data + b"\x00")


def test_a_header_that_promises_gigabytes_costs_nothing() -> None:
    header = b"\x00\x04" + bytes(23) + b"\xff" * 8
    with pytest.raises(Truncated, match="8589934623 bytes long and ends after 33"):
        IoMessage.from_bytes(header)
