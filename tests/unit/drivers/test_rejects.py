"""What cannot be read is counted and sampled, in bounded memory."""

import json

from drivers.rejects import (
    MAX_KINDS,
    MAX_NAME_CHARS,
    MAX_RAW_BYTES,
    MAX_SAMPLES,
    OTHER,
    SAMPLED_FIRST,
    Rejects,
    Unreadable,
    reason_of,
)


def test_it_counts_by_sensor_and_reason() -> None:
    rejects = Rejects()
    for sensor, reason in (("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")):
        rejects.note(sensor, reason, b"?", 5)
    assert rejects.total == 4
    assert rejects.counts == {("a", "x"): 2, ("a", "y"): 1, ("b", "x"): 1}


def test_a_source_that_invents_sensors_and_reasons_costs_bounded_memory() -> None:
    rejects = Rejects()
    for number in range(10_000):
        rejects.note(f"{number}" * 100, f"{number}" * 100, bytes(100_000), 5)
    assert len(rejects.counts) == MAX_KINDS + 1
    assert sum(rejects.counts.values()) == rejects.total == 10_000
    assert rejects.counts[OTHER] > 9_000
    assert all(len(word) <= MAX_NAME_CHARS for kind in rejects.counts for word in kind)
    samples = rejects.take_samples()
    assert len(samples) == MAX_SAMPLES
    assert {len(sample.raw) for sample in samples} == {MAX_RAW_BYTES}
    assert {sample.size_bytes for sample in samples} == {100_000}


def test_of_many_alike_fewer_and_fewer_are_sampled() -> None:
    rejects, sampled = Rejects(), 0
    for number in range(1, 100_001):
        rejects.note("a", "x", b"%d" % number, 5)
        sampled += len(rejects.take_samples())
    assert sampled == SAMPLED_FIRST + 13, "16, 32, … 65,536"


def test_a_reason_has_no_values_in_it() -> None:
    assert reason_of(Unreadable("t is not a number", "'19,4'")) == "t is not a number"
    assert reason_of(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")) == "not UTF-8 text"
    assert reason_of(ValueError("anything else")) == "anything else"
    assert reason_of(json.JSONDecodeError("char 4", "{", 4)) == "not a JSON document"
