"""Whatever `check` accepts of a journal's settings, ordinary readings fit into it: none is refused, all are stored."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.clock import ChainReferences, ClockReading
from agent.config.configuration import load_config
from agent.config.disk_space import journal_settings
from agent.errors import ConfigError
from agent.pack.routing import Route
from agent.pack.wrap import Group, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.ethereum.signer import Signer
from tests.effort import effort
from tests.support.ceilings import CeilingInMemory

NOW_MS = 1_700_000_000_000
TEXT_BYTES = 1024  # of a sensor that reports a text
CLOCK = ClockReading(now_ms=NOW_MS, monotonic_ms=1, boot_id=bytes(16), is_synchronised=True, max_error_ms=1)
ROUTES = [Route("0xab/plant", 0, content, 4, "", "none") for content in ("binary", "json")]
CONFIGURATION = """
[device]
name = "d"
data_directory = "data"
[journal]
segment_kilobytes = {segment}
max_megabytes = {size}
[drivers.d]
driver = "simulated"
signals = [{{ quantity = "q", kind = "walk" }}]
[[streams]]
stream = "{{address}}/plant"
[publishers.out]
kind = "file"
path = "out"
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configurations") / "headgate.toml"


@settings(max_examples=effort(test=60, soak=3000))
@given(segment=st.integers(0, 70_000) | st.integers(0, 128), size=st.integers(1, 4096))
@example(segment=16, size=16)
@example(segment=32, size=16)
@example(segment=64, size=16)
def test_a_reading_fits_into_every_journal_that_is_accepted(path: Path, segment: int, size: int) -> None:
    path.write_text(CONFIGURATION.format(segment=segment, size=size))
    with suppress(ConfigError):
        max_payload_bytes = journal_settings(load_config(path)).max_payload_bytes
        references = ChainReferences(CeilingInMemory(), None)
        wrapper = Wrapper(Signer(b"\x07" * 32), references, max_payload_bytes=max_payload_bytes)
        readings = [Reading("s", "q", value, taken_at_ms=NOW_MS) for value in (20.5, True, "x" * TEXT_BYTES)]
        wrapped = Wrapped.nothing()
        wrapper.wrap([Group(route, readings) for route in ROUTES], CLOCK, wrapped)
        assert not wrapped.refused
        assert wrapped.runs


def test_the_configuration_of_this_law_is_accepted(path: Path) -> None:
    path.write_text(CONFIGURATION.format(segment=64, size=16))
    assert load_config(path).journal.segment_kilobytes == 64
