"""A reading that exists is valid."""

import math

import pytest

from drivers.reading import MAX_NAME_CHARS, MAX_PAYLOAD_BYTES, MAX_TEXT_CHARS, Reading, now_ms


def test_a_scalar_has_a_unit_and_bytes_have_a_mime_type() -> None:
    scalar = Reading("boiler", "temperature", 21.5, "Cel", taken_at_ms=1)
    payload = Reading("camera", "photograph", b"\xff\xd8", taken_at_ms=1, mime_type="image/jpeg", token=7)
    assert (scalar.value, scalar.unit, scalar.mime_type, scalar.token) == (21.5, "Cel", "", None)
    assert (payload.value, payload.unit, payload.mime_type, payload.token) == (b"\xff\xd8", "", "image/jpeg", 7)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "on", ""])
def test_numbers_truths_and_texts_are_scalars(value: float | str) -> None:
    assert Reading("s", "q", value, taken_at_ms=0).value == value


def test_a_reading_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Reading("s", "q", 1, taken_at_ms=0).value = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sensor": ""}, "sensor"),
        ({"sensor": "s" * (MAX_NAME_CHARS + 1)}, "sensor"),
        ({"quantity": ""}, "quantity"),
        ({"value": math.nan}, "not finite"),
        ({"value": math.inf}, "not finite"),
        ({"value": None}, "NoneType"),
        ({"value": "x" * (MAX_TEXT_CHARS + 1)}, "4096"),
        ({"value": b"x"}, "MIME"),
        ({"value": bytes(MAX_PAYLOAD_BYTES + 1), "mime_type": "a/b"}, "8388608"),
        ({"mime_type": "a/b"}, "MIME"),
        ({"unit": "u" * (MAX_NAME_CHARS + 1)}, "unit"),
        ({"taken_at_ms": -1}, "taken_at_ms"),
    ],
)
def test_a_field_beyond_its_limit_is_refused(fields: dict[str, object], problem: str) -> None:
    valid = {"sensor": "s", "quantity": "q", "value": 1.0, "taken_at_ms": 0}
    with pytest.raises(ValueError, match=problem):
        Reading(**{**valid, **fields})  # type: ignore[arg-type]


def test_the_time_is_utc_in_milliseconds() -> None:
    assert 1_700_000_000_000 < now_ms() < 4_000_000_000_000
