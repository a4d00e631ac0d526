from hypothesis import given
from hypothesis import strategies as st

from ingest.spans import Hole, Span, holes_between, overlaps, unite


def span(first: int, last: int, *, previous: int | None = -1, **others: object) -> Span:
    """Of a chain whose references are (0, 0), (1, 0), (2, 0) …; each message names the previous one."""
    before = first - 1 if previous == -1 else previous
    return Span((first, 0), (last, 0), None if before is None or before < 0 else (before, 0), first, last, **others)  # type: ignore[arg-type]


def test_spans_that_follow_each_other_become_one() -> None:
    assert unite([span(3, 5), span(0, 2)]) == [span(0, 5)]


def test_spans_that_overlap_become_one() -> None:
    assert unite([span(0, 5), span(3, 8), span(4, 4)]) == [span(0, 8)]


def test_what_lies_between_spans_is_a_hole() -> None:
    spans = unite([span(6, 9), span(0, 2)])
    assert holes_between(spans) == [Hole((2, 0), (5, 0), (6, 0), 3)]


def test_a_chain_that_begins_in_the_middle_begins_with_a_hole() -> None:
    assert holes_between([span(4, 9)]) == [Hole(None, (3, 0), (4, 0), 4)]


def test_a_chain_that_starts_anew_has_no_hole() -> None:
    assert holes_between(unite([span(0, 2), span(7, 9, previous=None)])) == []


def test_a_message_that_names_an_older_one_than_the_last_leaves_no_hole() -> None:
    assert holes_between(unite([span(0, 4), span(6, 7, previous=2)])) == []


def test_how_many_are_missing_is_unknown_without_positions() -> None:
    spans = [Span((0, 0), (1, 0), None), Span((5, 0), (6, 0), (4, 0))]
    assert holes_between(spans) == [Hole((1, 0), (4, 0), (5, 0), None)]


def test_a_hash_that_does_not_go_on_is_counted_where_spans_meet() -> None:
    left, right = span(0, 2, last_hash="a"), span(3, 4, previous_hash="b", last_hash="c")
    assert [each.broken_links for each in unite([left, right])] == [1]
    assert [each.broken_links for each in unite([left, right._replace(previous_hash="a")])] == [0]


@given(st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 40))
def test_overlap_is_found_from_the_ends_alone(numbers: set[int], one: int, other: int) -> None:
    low, high = sorted((one, other))
    spans = unite([span(number, number) for number in numbers])
    inside = any(each.first <= (number, 0) <= each.last for number in range(low, high + 1) for each in spans)
    assert overlaps(spans, span(low, high)) == inside


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=12), st.randoms())
def test_neither_order_nor_repetition_changes_what_is_there(runs: list[tuple[int, int]], random: "st.Random") -> None:  # type: ignore[name-defined]
    spans = [span(first, first + length) for first, length in runs]
    present = {number for first, length in runs for number in range(first, first + length + 1)}
    shuffled = [*spans, *spans[:3]]
    random.shuffle(shuffled)
    united = unite(unite(shuffled[:4]) + shuffled[4:])
    assert {number for each in united for number in range(each.first[0], each.last[0] + 1)} == present
    missing = {number for hole in holes_between(united) for number in range(_start(hole), hole.last[0] + 1)}
    assert missing == set(range(max(present, default=-1) + 1)) - present


def _start(hole: Hole) -> int:
    return 0 if hole.after is None else hole.after[0] + 1
