"""Which versions a client is answered in."""

import pytest

from node.clients.session import negotiate
from node.errors import Refused
from node.serialization import LEGACY_API, Versions


def ask(control: str | None, message: str | None) -> Versions:
    query = {"controlLayerVersion": control, "messageLayerVersion": message, "streamrClient": "5.6.0"}
    return negotiate({key: value for key, value in query.items() if value is not None})


def test_any_pair_of_versions_is_taken_from_the_query() -> None:
    for control in range(3):
        for message in range(28, 33):
            assert ask(str(control), str(message)) == Versions(control, message)


@pytest.mark.parametrize(("control", "message"), [(None, None), ("2", None), (None, "32"), ("", ""), ("2", "")])
def test_without_both_versions_it_is_the_legacy_api(control: str | None, message: str | None) -> None:
    assert ask(control, message) == LEGACY_API


@pytest.mark.parametrize(("control", "message"), [("3", "32"), ("2", "33"), ("2", "27"), ("-1", "32"), ("x", "y")])
def test_a_version_that_does_not_exist_is_refused(control: str, message: str) -> None:
    with pytest.raises(Refused, match="controlLayerVersion must be one of 0, 1, 2"):
        ask(control, message)
