"""Messages that are read together give what each of them gives when it is read alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.iomessage import EMPTY_CHAIN, ChainLinker, IoMessage, LinkedTemplate, message_hash
from protocol.iomessage.as_bytes import HEADER_BYTES
from protocol.iomessage.columns import DIGEST_BYTES, ReadingColumns, doubles_in, read_binaries
from protocol.scalars import decode_scalar, encode_scalar
from tests.support.iomessage_samples import message

COUNT = 8
TEMPLATES = [LinkedTemplate(message(context_data=b"", tag=tag)) for tag in ("tag-1", "tag-2")]
DRAFTS = [
    (TEMPLATES[number % 2], f"id-{number}", 1_790_000_000_000 + number, encode_scalar(number + 0.5), b"")
    for number in range(COUNT + 1)
]
RUN = ChainLinker(EMPTY_CHAIN).link_all(DRAFTS)[1:]  # all have predecessors
UNLINKED = [message(id=f"id-{number}", context_data=b"").to_bytes() for number in range(COUNT)]

places = st.tuples(st.integers(0, COUNT), st.integers(0, min(len(RUN[0]), len(UNLINKED[0])) - 1), st.integers(0, 255))
changes = st.lists(places, max_size=3)  # row COUNT stands for all of them


def read(run: list[bytes]) -> ReadingColumns | None:
    return read_binaries(np.frombuffer(b"".join(run), np.uint8).reshape(len(run), -1))


def agree(run: list[bytes]) -> list[bool]:
    """Which messages are read together; each of them is valid alone, and has the same fields."""
    together = read(run)
    if together is None:
        return [False] * len(run)
    texts = [[row.tobytes().decode("latin-1") for row in rows] for rows in (together.ids, together.previous_hashes)]
    for number, is_usual in enumerate(together.is_usual.tolist()):
        if is_usual:
            alone = IoMessage.from_bytes(run[number])
            assert (alone.id, alone.previous_hash) == (texts[0][number], texts[1][number] or None)
            assert (alone.timestamp or 0) == together.made_at_ms[number]
            assert alone.content_data == together.contents[number].tobytes()
            assert alone.chain_position == (None if together.positions is None else together.positions[number])
            digest = together.digests[number * DIGEST_BYTES :][:DIGEST_BYTES].hex()
            assert digest == (alone.hash or "") == together.hashes[number].tobytes().decode()
            assert not alone.hash or digest == message_hash(alone)
            sample = IoMessage.from_bytes(together.samples[together.kinds[number]])
            for name in ("tag", "publisher", "group_id", "priority", "info_type", "info_format", "difficulty_target"):
                assert getattr(sample, name) == getattr(alone, name)
    return list(together.is_usual)


def test_readings_of_equal_header_are_read_together() -> None:
    assert agree(RUN) == [True] * COUNT
    assert agree(UNLINKED) == [True] * COUNT


def test_messages_that_differ_in_what_a_sensor_says_always_alike_are_of_several_kinds() -> None:
    together = read(RUN)
    assert together is not None
    assert len(together.samples) == 2
    assert together.kinds.tolist() == [together.kinds[0], together.kinds[1]] * (COUNT // 2)
    assert together.kinds[0] != together.kinds[1]


@given(run=st.sampled_from([RUN, UNLINKED]), changes=changes)
def test_changed_messages_are_read_together_only_if_each_is_valid_alone(
    run: list[bytes], changes: list[tuple[int, int, int]]
) -> None:
    changed = [bytearray(data) for data in run]
    for row, place, byte in changes:
        for data in changed if row == COUNT else changed[row : row + 1]:
            data[place] = byte
    of_one_header = [bytes(data) for data in changed if data[:HEADER_BYTES] == changed[0][:HEADER_BYTES]]
    try:
        IoMessage.from_bytes(of_one_header[0])
    except WireError:
        return
    agree(of_one_header)


def test_a_change_anywhere_costs_only_the_message_that_was_changed() -> None:
    for row in (1, COUNT - 1):
        for place in range(HEADER_BYTES, len(RUN[row])):
            changed = bytearray(RUN[row])
            changed[place] ^= 1
            assert agree([*RUN[:row], bytes(changed), *RUN[row + 1 :]]) == [each != row for each in range(COUNT)]


def test_layouts_that_are_not_usual_are_not_read_together() -> None:
    for unusual in (
        message(id="x" * 9, context_data=b"c"),
        message(context_data=b"", timestamp=2**50),
        message(context_data=b"", chain_position=2**50),
        message(context_data=b"", hash="ab"),
        message(context_data=b"", previous_hash="ab"),
    ):
        assert read([unusual.to_bytes()] * 2) is None


def test_a_row_that_is_no_whole_message_is_not_read() -> None:
    assert read([RUN[0][:-1]]) is None
    assert read([RUN[0] + b"x"]) is None
    assert read([b"\xff" + RUN[0][1:]]) is None
    assert read([b"short"]) is None


def test_doubles_are_found_where_all_contents_are_doubles() -> None:
    def found(*values: float | str) -> list[float] | None:
        contents = [encode_scalar(value) for value in values]
        doubles = doubles_in(np.frombuffer(b"".join(contents), np.uint8).reshape(len(values), -1))
        assert doubles is None or doubles.tolist() == [decode_scalar(content) for content in contents]
        return None if doubles is None else doubles.tolist()

    assert found(0.5, -1e300, float("inf")) == [0.5, -1e300, float("inf")]
    assert found(0.5, "eight ch") is None
    assert found(1, 2) is None
