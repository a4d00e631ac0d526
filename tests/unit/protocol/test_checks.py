import pytest

from protocol.checks import check_length, check_text, check_within


def test_values_at_their_limits_are_accepted() -> None:
    check_within("count", 1, 1, 3)
    check_within("count", 3, 1, 3)
    check_length("key", bytes(32), 32)
    check_text("reason", "é" * 8, 16)


def test_a_problem_names_the_field_the_value_and_the_limit() -> None:
    with pytest.raises(ValueError, match=r"^count 0 is not within 1\.\.3$"):
        check_within("count", 0, 1, 3)
    with pytest.raises(ValueError, match=r"^key of 31 bytes, not 32$"):
        check_length("key", bytes(31), 32)
    with pytest.raises(ValueError, match=r"^reason of 18 bytes, at most 16$"):
        check_text("reason", "é" * 9, 16)
