"""Where documents and releases differ: what is read, as what, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import WireError
from protocol.streamr.control import parse_control_message
from protocol.streamr.network import parse_network_message
from protocol.streamr.stream_message import parse_stream_message
from protocol.streamr.tracker import parse_tracker_message
from tests.support.streamr_vectors import load_vectors

DECISIONS = load_vectors("decisions")
READ_AND_WRITE: dict[str, Callable[..., str]] = {
    "stream": lambda text, documents: parse_stream_message(text, draft=documents).serialize(),
    "control": lambda text, documents: parse_control_message(text, documents=documents).serialize(),
    "tracker": lambda text, documents: parse_tracker_message(text, documents=documents).serialize(),
    "network": lambda text, _: parse_network_message(text).serialize(),
}


def named(decision: dict[str, Any]) -> str:
    return f"{decision['layer']}: {decision['case']}"


def rewritten(decision: dict[str, Any]) -> str:
    return READ_AND_WRITE[decision["layer"]](decision["serialized"], decision["documents"])


def test_every_decision_is_here_and_has_its_reason() -> None:
    assert len(DECISIONS) == 40
    assert all(decision["why"] for decision in DECISIONS)


@pytest.mark.parametrize("decision", [each for each in DECISIONS if each["read_as"] is not None], ids=named)
def test_what_is_read_is_read_as_decided(decision: dict[str, Any]) -> None:
    assert rewritten(decision) == decision["read_as"]


@pytest.mark.parametrize("decision", [each for each in DECISIONS if each["read_as"] is None], ids=named)
def test_what_is_refused_is_refused(decision: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        rewritten(decision)
