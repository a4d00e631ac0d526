import pytest

from protocol.errors import Corrupt, Truncated, Unsupported
from protocol.iomessage import IoMessageReader
from tests.support.iomessage_samples import EVERY_FIELD, message

MESSAGES = [message(), message(**EVERY_FIELD), message(content_data=bytes(5000))]
STREAM = b"".join(each.to_bytes() for each in MESSAGES)


@pytest.mark.parametrize("piece", [1, 7, 33, 1000, len(STREAM)])
def test_messages_come_out_whole_however_the_bytes_arrive(piece: int) -> None:
    reader = IoMessageReader()
    read = [each for start in range(0, len(STREAM), piece) for each in reader.feed(STREAM[start : start + piece])]
    reader.close()
    assert read == MESSAGES


def test_messages_before_an_error_are_given_first() -> None:
    reader = IoMessageReader()
    assert reader.feed(STREAM + b"\x00\x05" + bytes(31)) == MESSAGES
    for call in (reader.close, lambda: reader.feed(b"more")):
        with pytest.raises(Unsupported, match=f"version 5.*at byte {len(STREAM)}"):
            call()


def test_an_error_without_messages_before_it_is_raised_at_once() -> None:
    with pytest.raises(Corrupt, match=r"priority is 200 bytes wide.*at byte 8"):
        IoMessageReader().feed(b"\x00\x04" + bytes(6) + b"\xc8" + bytes(24))


def test_a_message_larger_than_allowed_is_refused_by_its_header() -> None:
    reader = IoMessageReader(max_message_bytes=1000)
    with pytest.raises(Corrupt, match="larger than the 1000 allowed here"):
        reader.feed(message(content_data=bytes(5000)).to_bytes()[:33])


def test_a_stream_that_ends_inside_a_message_is_truncated() -> None:
    reader = IoMessageReader()
    assert reader.feed(STREAM[:-1]) == MESSAGES[:-1]
    with pytest.raises(Truncated, match=f"at byte {len(STREAM) - 1}"):
        reader.close()


def test_nothing_is_kept_of_what_was_given_out() -> None:
    reader = IoMessageReader()
    reader.feed(STREAM)
    assert len(reader._pending) == 0
