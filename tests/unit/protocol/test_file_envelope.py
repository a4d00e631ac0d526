import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.file_envelope import FileEnvelope

ENVELOPE = FileEnvelope(name="test file", magic=b"HGTEST", version=3, max_bytes=100)
WHOLE = ENVELOPE.wrap(b"body")


def test_the_body_is_returned_unchanged() -> None:
    assert WHOLE.startswith(b"HGTEST\0\3body")
    assert ENVELOPE.unwrap(WHOLE) == b"body"


def test_every_prefix_and_every_changed_byte_is_refused() -> None:
    for position in range(len(WHOLE)):
        with pytest.raises(WireError):
            ENVELOPE.unwrap(WHOLE[:position])
        damaged = bytearray(WHOLE)
        damaged[position] ^= 1
        with pytest.raises(WireError):
            ENVELOPE.unwrap(bytes(damaged))


def test_the_error_names_the_kind_of_file_and_the_problem() -> None:
    with pytest.raises(Corrupt, match="not a Headgate test file: it does not begin with HGTEST"):
        ENVELOPE.unwrap(b"PK\3\4")
    with pytest.raises(Unsupported, match="test file format 0004, this program supports 3"):
        ENVELOPE.unwrap(WHOLE[:7] + b"\4" + WHOLE[8:])
    with pytest.raises(Truncated, match="the test file is truncated"):
        ENVELOPE.unwrap(b"")
    with pytest.raises(Corrupt, match="test file of 101 bytes is larger than 100"):
        ENVELOPE.unwrap(ENVELOPE.wrap(bytes(61)))
    with pytest.raises(Corrupt, match="the test file is damaged: checksum mismatch"):
        ENVELOPE.unwrap(WHOLE[:-1] + b"?")
