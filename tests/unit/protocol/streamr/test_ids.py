"""Message ids and references, and the chain that a publisher makes of them."""

import pytest

from protocol.streamr.ids import MessageID, MessageRef, next_message_ref


def test_references_are_ordered_by_timestamp_and_then_by_sequence_number() -> None:
    shuffled = [MessageRef(2, 0), MessageRef(10, 0), MessageRef(1, 5), MessageRef(1, 0)]
    assert sorted(shuffled) == [MessageRef(1, 0), MessageRef(1, 5), MessageRef(2, 0), MessageRef(10, 0)]


def test_an_id_gives_the_reference_by_which_the_next_message_will_name_it() -> None:
    assert MessageID("s", 0, 7, 3, "p", "c").ref == MessageRef(7, 3)


@pytest.mark.parametrize(
    ("previous", "clock", "expected"),
    [
        (None, 100, MessageRef(100, 0)),
        (MessageRef(99, 7), 100, MessageRef(100, 0)),
        (MessageRef(100, 0), 100, MessageRef(100, 1)),
        (MessageRef(100, 7), 50, MessageRef(100, 8)),
    ],
    ids=["first", "later", "same millisecond", "clock stepped back"],
)
def test_the_next_reference_is_always_newer(previous: MessageRef | None, clock: int, expected: MessageRef) -> None:
    assert next_message_ref(previous, clock) == expected


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"stream_id": ""}, "stream_id"),
        ({"stream_id": 5}, "stream_id"),
        ({"stream_partition": -1}, "stream_partition"),
        ({"timestamp": True}, "timestamp"),
        ({"timestamp": 1.0}, "timestamp"),
        ({"sequence_number": None}, "sequence_number"),
        ({"publisher_id": None}, "publisher_id"),
        ({"msg_chain_id": b"c"}, "msg_chain_id"),
    ],
)
def test_an_id_with_a_wrong_field_cannot_be_made_and_the_error_names_the_field(
    changes: dict[str, object], named: str
) -> None:
    fields: dict[str, object] = {"stream_id": "s", "stream_partition": 0, "timestamp": 1}
    with pytest.raises(ValueError, match=f"^{named}: must be "):
        MessageID(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [(-1, 0), (0, -1), ("1", 0), (0, None)])
def test_a_reference_needs_two_whole_numbers(fields: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        MessageRef(*fields)
