import pytest

from protocol.reference import LATEST_CLOCK_MS, MAX_SEQUENCE, Reference, next_reference


@pytest.mark.parametrize(
    ("last", "now_ms", "expected"),
    [
        (None, 1000, Reference(1000, 0)),
        (None, -5, Reference(0, 0)),  # a clock before 1970
        (Reference(1000, 7), 1001, Reference(1001, 0)),
        (Reference(1000, 7), 1000, Reference(1000, 8)),  # a clock that stands still
        (Reference(1000, 7), 3, Reference(1000, 8)),  # a clock that went back
        (Reference(1000, MAX_SEQUENCE), 3, Reference(1001, 0)),
        (None, 2**70, Reference(LATEST_CLOCK_MS, 0)),  # a clock gone mad
        (Reference(LATEST_CLOCK_MS, 0), 2**70, Reference(LATEST_CLOCK_MS, 1)),
    ],
)
def test_the_next_reference_is_later_whatever_the_clock_says(
    last: Reference | None, now_ms: int, expected: Reference
) -> None:
    assert next_reference(last, now_ms) == expected
