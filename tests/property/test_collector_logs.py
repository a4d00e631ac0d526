"""Laws of the collector's logs: any order of arrival, with anything missing, against a naive model."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ingest.collector.leaves import Leaf
from ingest.collector.log_state import ENVELOPE, LogState
from ingest.collector.logs import Logs
from protocol import strict_cbor
from protocol.devicelog.merkle import root
from protocol.errors import WireError
from tests.fuzz.collector_logs import SEEDS
from tests.property.test_archive_laws import CBOR_VALUES
from tests.support.archives import LOG
from tests.support.device_logs import digest, log_entry

NUMBERS = st.lists(st.integers(0, 30), max_size=30)


@given(NUMBERS, st.integers(0, 40))
def test_what_is_held_and_missing_equals_a_naive_model_in_any_order(numbers: list[int], received: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        logs, model = Logs(Path(folder), max_logs_per_device=1, mark_forked=lambda *_: None), set[int]()
        for number in numbers:
            with logs.hold(b"d" * 20, LOG, previous_log=b"", now_ms=1) as log:
                log.prepare(log_entry(number))
                assert log.contradiction_of(log_entry(number), digest(number)) is None
                assert (log.contradiction_of(log_entry(number), b"x" * 32) is None) == (
                    number not in model and number + 1 not in model
                )
                log.append(log_entry(number), digest(number), 2)
                model.add(number)
                check(log.state, model)
        with logs.hold(b"d" * 20, LOG, previous_log=b"", now_ms=1) as log:
            log.note_contact(3, received=received)
            known = max(model, default=-1) + 1
            missing = {number for each in log.state.missing() for number in range(*each)}
            assert missing == set(range(max(received, known))) - model


def check(state: LogState, model: set[int]) -> None:
    size = next(number for number in range(32) if number not in model)
    assert (state.frontier.size, state.frontier.root) == (size, root([digest(number) for number in range(size)]))
    assert {number for number in range(32) if state.holds(number)} == model
    assert {number for each in state.missing(32) for number in range(*each)} == set(range(32)) - model
    assert state.missing_readings == 10 * len(set(range(max(model))) - model)
    assert LogState.from_bytes(state.to_bytes()) == state


@given(st.binary(max_size=200) | st.sampled_from(SEEDS), CBOR_VALUES)
def test_any_bytes_are_a_state_or_a_wire_error(data: bytes, value: strict_cbor.CborValue) -> None:
    for each in (data, ENVELOPE.wrap(data), ENVELOPE.wrap(strict_cbor.encode(value))):
        try:
            assert LogState.from_bytes(each).to_bytes() == each
        except WireError:
            continue


@given(st.binary(min_size=32, max_size=32), st.just(b"") | st.binary(min_size=32, max_size=32).filter(any))
def test_a_leaf_is_read_as_it_was_written(sha256: bytes, root_before: bytes) -> None:
    leaf = Leaf(sha256, root_before)
    assert Leaf.from_bytes(leaf.to_bytes()) == leaf
