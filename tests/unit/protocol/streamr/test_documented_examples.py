"""The examples in the documents are real: each is read, and written again byte for byte."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.streamr.control import parse_control_message
from protocol.streamr.network import parse_network_message
from protocol.streamr.stream_message import parse_stream_message
from protocol.streamr.tracker import parse_tracker_message

DOCS = Path(__file__).parents[4] / "docs"
BLOCK = re.compile(r"^```json streamr-(?P<layer>[a-z-]+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
REWRITE: dict[str, Callable[[str], str]] = {
    "stream": lambda line: parse_stream_message(line).serialize(),
    "control": lambda line: parse_control_message(line).serialize(),
    "tracker": lambda line: parse_tracker_message(line).serialize(),
    "network": lambda line: parse_network_message(line).serialize(),
    "network-documents": lambda line: parse_network_message(line).serialize(documents=True),
}
EXAMPLES = [
    (block["layer"], line)
    for document in sorted(DOCS.rglob("*.md"))
    for block in BLOCK.finditer(document.read_text())
    for line in block["lines"].split("\n")[:-1]
]


def test_every_layer_has_examples() -> None:
    assert {layer for layer, _ in EXAMPLES} == set(REWRITE)
    assert len(set(EXAMPLES)) == 37


@pytest.mark.parametrize(("layer", "line"), EXAMPLES)
def test_an_example_is_read_and_written_byte_for_byte(layer: str, line: str) -> None:
    assert REWRITE[layer](line) == line
