"""A run that is taken as columns gives the rows and the summary that its messages give one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ingest.blocks
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.runs import MIN_RUN, lay_out_run
from testbed.corpus.archives import Archive, Chain, Device, Made
from tests.effort import effort

START_MS = 1_790_000_000_000
COUNT = 3 * MIN_RUN


def decode(data: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages by their number, and the other rows."""
    messages: list[dict[str, Any]] = []

    def take(batch: pa.RecordBatch) -> None:
        messages.extend(batch.to_pylist())

    rest = [row for batch in decode_archive("x", data, 0, DecodeSettings(), take) for row in batch.to_pylist()]
    return sorted(messages, key=lambda row: row["record"]), rest


def readings(chain: Chain, count: int = COUNT, **options: Any) -> list[Made]:
    return [chain.reading(each * 0.5, START_MS + each * 10, **options) for each in range(count)]


def spoilt_in_the_middle(chain: Chain, **spoilt: Any) -> list[Made]:
    return [
        chain.reading(each * 0.5, START_MS + each * 10, **(spoilt if each == COUNT // 2 else {}))
        for each in range(COUNT)
    ]


def with_another_value(chain: Chain, value: Any) -> list[Made]:
    return [chain.reading(value if each == 20 else 0.5, START_MS + each * 10) for each in range(COUNT)]


def without(messages: list[Made], *places: int) -> list[Made]:
    return [made for place, made in enumerate(messages) if place not in places]


def two_sensors(chain: Chain) -> list[Made]:
    messages = []
    for each in range(COUNT):
        chain.sensor = "boiler" if each < 24 else "roiler"
        messages.append(chain.reading(0.5, START_MS + each * 10))
    return messages


def at_a_time_out_of_range(chain: Chain) -> list[Made]:
    return [*readings(chain), chain.reading(1.0, 9_000_000_000_000)]


@pytest.mark.parametrize(
    "make",
    [
        readings,
        lambda chain: readings(chain, 700),  # over several widths of the position, and several blocks
        lambda chain: spoilt_in_the_middle(chain, spoil_hash=True),
        lambda chain: [*readings(chain), chain.reading(0.5, START_MS + COUNT * 10, spoil_hash=True)],
        lambda chain: spoilt_in_the_middle(chain, broken_link=True),
        lambda chain: with_another_value(chain, 7),
        lambda chain: with_another_value(chain, "text"),
        lambda chain: with_another_value(chain, float("-inf")),
        lambda chain: without(readings(chain), 20),
        lambda chain: without(readings(chain), 0, 1, COUNT - 2),
        lambda chain: [*readings(chain)[20:], *chain.produced[:20]],
        lambda chain: [*readings(chain)[:30], *chain.produced[20:]],
        two_sensors,
        at_a_time_out_of_range,
    ],
)
def test_a_run_is_judged_as_its_messages_are_judged_one_by_one(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    device = Device(31)
    data = Archive(device, START_MS, block_target_bytes=200_000).add(make(device.chain("c"))).to_bytes()
    as_runs = decode(data)
    monkeypatch.setattr(ingest.blocks, "MIN_RUN", 10**9)
    assert decode(data) == as_runs


def test_a_perfect_chain_is_taken_as_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(31)
    data = Archive(device, START_MS, block_target_bytes=200_000).add(readings(device.chain("c"))).to_bytes()
    taken = []

    def count(*arguments: Any) -> Any:
        taken.append(lay_out_run(*arguments))
        return taken[-1]

    monkeypatch.setattr(ingest.blocks, "lay_out_run", count)
    rows, _ = decode(data)
    assert len(rows) == COUNT
    assert any(run is not None and run.decoded.readings > MIN_RUN for run in taken)


SOUND = readings(Device(32).chain("c"))


@settings(max_examples=effort(test=10, soak=1_000), deadline=None)
@given(row=st.integers(0, COUNT - 1), place=st.integers(0, len(SOUND[1].text) - 1), bit=st.integers(0, 7))
@example(row=COUNT - 1, place=-10, bit=0)  # another signature, that is still one
def test_one_message_that_was_tampered_with_costs_the_run_nothing_else(row: int, place: int, bit: int) -> None:
    archive = Archive(SOUND[0].chain.device, START_MS, block_target_bytes=200_000)
    for number, made in enumerate(SOUND):
        text = bytearray(made.text)
        if number == row:
            text[place % len(text)] ^= 1 << bit
        archive.file(made, text=bytes(text))
    data = archive.to_bytes()
    as_runs = decode(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest.blocks, "MIN_RUN", 10**9)
        assert decode(data) == as_runs
    assert {row["record"] for row in as_runs[0]} >= {number for number in range(COUNT) if number != row}
