"""Which versions a client is answered in."""

import pytest

from node.client_endpoint import negotiate
from node.errors import Refused


def ask(control: str | None, message: str | None) -> tuple[int, int]:
    query = {"controlLayerVersion": control, "messageLayerVersion": message, "streamrClient": "5.6.0"}
    return negotiate({key: value for key, value in query.items() if value is not None})


def test_both_versions_are_taken_from_the_query() -> None:
    assert [ask(control, message) for control in "12" for message in ("30", "31", "32")] == [
        (control, message) for control in (1, 2) for message in (30, 31, 32)
    ]


def test_without_versions_it_is_the_legacy_api() -> None:
    assert ask(None, None) == (0, 28)


@pytest.mark.parametrize(
    ("control", "message"), [("2", None), (None, "32"), ("3", "32"), ("2", "33"), ("0", "28"), ("", ""), ("2", "28")]
)
def test_anything_else_is_refused(control: str | None, message: str | None) -> None:
    with pytest.raises(Refused, match="controlLayerVersion must be one of 1, 2"):
        ask(control, message)
