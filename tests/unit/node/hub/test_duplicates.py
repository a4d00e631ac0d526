"""What was here before, chain by chain."""

from hypothesis import given, settings
from hypothesis import strategies as st

from node.hub.duplicates import MAX_GAPS, ChainMemory, DuplicateFilter
from protocol.streamr.ids import MessageRef
from tests.support.node_samples import a_message


def take_all(*numbers: tuple[int, int | None]) -> list[bool]:
    """Feed messages (own number, predecessor's number) to one chain."""
    memory = ChainMemory()
    return [
        memory.add(MessageRef(number, 0), None if previous is None else MessageRef(previous, 0))
        for number, previous in numbers
    ]


def test_messages_in_order_are_new_and_their_repetitions_are_not() -> None:
    assert take_all((1, None), (2, 1), (2, 1), (1, None), (3, 2)) == [True, True, False, False, True]


def test_an_older_message_is_dropped_where_no_gap_was_declared() -> None:
    assert take_all((1, None), (5, 1), (3, 1)) == [True, True, False]


def test_late_messages_fill_a_declared_gap_once() -> None:
    assert take_all((1, None), (5, 4), (3, 2), (3, 2), (2, 1), (4, 3), (4, 3)) == [
        True, True, True, False, True, True, False,
    ]  # fmt: skip


def test_a_message_in_a_gap_closes_what_lies_between_it_and_its_predecessor() -> None:
    assert take_all((1, None), (9, 8), (6, 3), (5, 4), (2, 1)) == [True, True, True, False, True]


def test_a_newer_message_without_predecessor_declares_no_gap() -> None:
    assert take_all((1, None), (5, None), (3, 2)) == [True, True, False]


def test_messages_before_the_first_known_one_are_new() -> None:
    assert take_all((5, 4), (3, 2), (3, 2), (1, None), (2, 1), (4, 3), (6, 5)) == [
        True, True, False, True, True, True, True,
    ]  # fmt: skip


def test_a_predecessor_that_is_not_before_its_message_declares_no_gap() -> None:
    assert take_all((5, 9), (3, None), (6, 6), (4, None)) == [True, False, True, False]


def test_a_filter_that_starts_knows_what_was_stored_and_what_is_missing() -> None:
    seen = DuplicateFilter()
    seen.seed([a_message(7, previous=6), a_message(3, previous=2), a_message(1, chain="another")])

    assert not any(seen.add(a_message(n, previous=n - 1)) for n in (3, 7))
    assert not seen.add(a_message(1, chain="another"))
    assert all(seen.add(a_message(n, previous=n - 1)) for n in (5, 2, 8, 4, 6))


def test_the_oldest_gaps_are_given_up_first() -> None:
    memory = ChainMemory()
    numbers = [MessageRef(10 * index, 0) for index in range(MAX_GAPS + 2)]
    for ref in numbers:
        memory.add(ref, MessageRef(max(0, ref.timestamp - 1), 0))

    assert not memory.add(MessageRef(5, 0), None)
    assert memory.add(MessageRef(15, 0), None)


def test_the_number_of_pieces_of_a_partly_filled_gap_is_bounded() -> None:
    memory = ChainMemory()
    end = 10 * MAX_GAPS
    memory.add(MessageRef(0, 0), None)
    memory.add(MessageRef(end, 0), MessageRef(end - 1, 0))
    for late in range(2, end - 1, 2):
        assert memory.add(MessageRef(late, 0), MessageRef(late - 1, 0))
    assert len(memory._gaps) <= MAX_GAPS
    assert memory.add(MessageRef(end - 1, 0), MessageRef(end - 2, 0))


@given(st.permutations(range(1, 12)))
@settings(deadline=None)
def test_a_whole_chain_in_any_order_is_taken_exactly_once_behind_its_head(order: list[int]) -> None:
    memory = ChainMemory()
    memory.add(MessageRef(0, 0), None)
    memory.add(MessageRef(12, 0), MessageRef(11, 0))
    refs = [(MessageRef(number, 0), MessageRef(number - 1, 0)) for number in order]

    assert all(memory.add(*ref) for ref in refs)
    assert not any(memory.add(*ref) for ref in refs)


def test_chains_are_distinguished_and_publishers_are_compared_without_case() -> None:
    seen = DuplicateFilter()

    assert seen.add(a_message(5))
    assert seen.add(a_message(1, chain="another"))
    assert seen.add(a_message(1, partition=1))
    assert not seen.add(a_message(5, publisher=a_message().message_id.publisher_id.upper().replace("0X", "0x")))


def test_the_least_recently_used_chain_is_dropped_first() -> None:
    seen = DuplicateFilter(max_chains=2)
    for chain in ("a", "b", "a", "c"):
        seen.add(a_message(1, chain=chain))

    assert not seen.add(a_message(1, chain="a"))
    assert seen.add(a_message(1, chain="b"))


def test_a_message_of_a_removed_chain_is_new_again() -> None:
    seen = DuplicateFilter()
    seen.add(a_message(1))
    seen.remove_chain(a_message(1))

    assert seen.add(a_message(1))
