"""Messages that are read together give what each of them gives when it is read alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.iomessage import EMPTY_CHAIN, ChainLinker, IoMessage, LinkedTemplate, message_hash
from protocol.iomessage.columns import DIGEST_BYTES, read_binaries
from protocol.scalars import decode_scalar, encode_scalar
from tests.support.iomessage_samples import message

COUNT = 8
TEMPLATE = LinkedTemplate(message(context_data=b""))
DRAFTS = [
    (TEMPLATE, f"id-{number}", 1_790_000_000_000 + number, encode_scalar(number + 0.5), b"") for number in range(COUNT)
]
RUN = ChainLinker(EMPTY_CHAIN).link_all(DRAFTS)[1:]  # all have predecessors

changes = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.integers(0, len(RUN[0]) - 1), st.integers(0, 255)), max_size=3
)


def agree(run: list[bytes]) -> bool:
    """Whether the messages are read together; then each is valid alone, and has the same fields."""
    IoMessage.from_bytes(run[0])  # the first is always decoded before
    read = read_binaries(np.frombuffer(b"".join(run), np.uint8).reshape(len(run), -1))
    if read is None:
        return False
    alone = [IoMessage.from_bytes(data) for data in run]
    starts = range(0, len(read.digests), DIGEST_BYTES)
    digests = [read.digests[start : start + DIGEST_BYTES].hex() for start in starts]
    assert digests == [each.hash for each in alone] == [message_hash(each) for each in alone]
    assert [each.previous_hash for each in alone[1:]] == digests[:-1]
    assert [row.tobytes().decode() for row in read.ids] == [each.id for each in alone]
    assert read.positions.tolist() == [each.chain_position for each in alone]
    assert read.made_at_ms.tolist() == [each.timestamp for each in alone]
    assert read.values.tolist() == [decode_scalar(each.content_data or b"") for each in alone]
    return True


def test_linked_readings_of_one_sensor_are_read_together() -> None:
    assert agree(RUN)


@given(changes=changes)
def test_changed_messages_are_read_together_only_if_each_is_valid_alone(changes: list[tuple[int, int, int]]) -> None:
    run = [bytearray(data) for data in RUN]
    for row, place, byte in changes:
        for data in run if row == len(run) else run[row : row + 1]:
            data[place] = byte
    try:
        IoMessage.from_bytes(bytes(run[0]))
    except WireError:
        return
    agree([bytes(data) for data in run])


def test_a_message_left_out_or_out_of_order_is_not_read_together() -> None:
    assert not agree([RUN[0], *RUN[2:]])
    assert not agree([RUN[0], RUN[2], RUN[1], *RUN[3:]])


def test_a_change_anywhere_in_a_message_behind_the_first_is_not_read_together() -> None:
    for row in (1, len(RUN) - 1):
        for place in range(len(RUN[row])):
            changed = bytearray(RUN[row])
            changed[place] ^= 1
            assert not agree([*RUN[:row], bytes(changed), *RUN[row + 1 :]])
