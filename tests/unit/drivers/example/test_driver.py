import pytest

from drivers.example.driver import first_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.52 0.58", 0.52), ("t = 21 °C", 21.0), ("", None), ("nan inf", None), ("no number", None), ("-1e3", -1000.0)],
)
def test_the_first_number_of_a_text_is_found(text: str, number: float | None) -> None:
    assert first_number(text) == number
