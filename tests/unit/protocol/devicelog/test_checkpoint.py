import dataclasses
from typing import Any

import pytest

from protocol import strict_cbor
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint, LaneState, Relation
from protocol.devicelog.entry import MAX_LANES
from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from tests.support.archives import LOG
from tests.support.device_logs import checkpoint, checkpoint_statement, digest

BOUNDS = strict_cbor.CborBounds(MAX_CHECKPOINT_BYTES, 1000, 8)
FAR = 2**63 - 1


def test_round_trip() -> None:
    for each in (checkpoint(), checkpoint(0, lanes=()), checkpoint(3, previous_log=b"the-log-before-1")):
        assert Checkpoint.from_bytes(each.to_bytes()) == each


def test_the_largest_one_can_be_read() -> None:
    lanes = tuple(LaneState(224 + each, FAR, FAR, FAR, FAR, FAR) for each in range(MAX_LANES))
    data = checkpoint(3, lanes=lanes, agent_version="v" * 64, waiting_bytes=FAR).to_bytes()
    assert Checkpoint.from_bytes(data).lanes == lanes


@pytest.mark.parametrize(
    "change",
    [
        {"log": b"another-log-here"},
        {"size": 4},
        {"root": bytes(32)},
        {"last": digest(0)},
        {"lanes": ()},
        {"boot": bytes(16)},
        {"made_at_ms": 1},
        {"agent_version": ""},
        {"configuration": bytes(32)},
        {"waiting": 0},
        {"waiting_bytes": 0},
        {"previous_log": b"the-log-before-1"},
        {"signature": bytes(64)},
        {"signature": b"short"},
    ],
)
def test_a_checkpoint_with_anything_changed_cannot_exist(change: dict[str, Any]) -> None:
    values = {each.name: getattr(checkpoint(), each.name) for each in dataclasses.fields(Checkpoint)}
    with pytest.raises(ValueError, match=r"signed by|bytes, not"):
        Checkpoint(**{**values, **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"log": b""}, "log of 0"),
        ({"previous_log": LOG}, "continue itself"),
        ({"size": -1}, "size -1"),
        ({"last": b""}, "digest of 0 bytes"),
        ({"boot": b""}, "boot"),
        ({"made_at_ms": -1}, "made_at_ms"),
        ({"agent_version": "x" * 65}, "agent_version"),
        ({"configuration": b""}, "configuration"),
        ({"waiting": -1}, "waiting"),
        ({"waiting_bytes": -1}, "waiting_bytes"),
        ({"lanes": (LaneState(1, 0, 4, 5, 0, 0),)}, "archived 5"),
        ({"lanes": (LaneState(1, 0, 5, 4, 5, 0),)}, "released 5"),
        ({"lanes": (LaneState(1, 3, 5, 4, 2, 0),)}, "begin 3"),
        ({"lanes": (LaneState(1, 0, 5, 4, 2, 6),)}, "lost 6"),
        ({"lanes": (LaneState(1, 0, FAR + 1, 0, 0, 0),)}, "committed"),
        ({"lanes": (LaneState(1, 0, 0, 0, 0, 0), LaneState(0, 0, 0, 0, 0, 0))}, "not in order"),
    ],
)
def test_a_statement_that_contradicts_itself_cannot_exist(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checkpoint_statement(**change)


def test_every_beginning_is_truncated_and_no_byte_can_change() -> None:
    data = checkpoint().to_bytes()
    for length in range(len(data)):
        with pytest.raises(Truncated):
            Checkpoint.from_bytes(data[:length])
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            Checkpoint.from_bytes(bytes(damaged))


def test_a_later_version_is_unsupported_and_a_wrong_type_corrupt() -> None:
    values = strict_cbor.decode(checkpoint().to_bytes(), BOUNDS)
    assert isinstance(values, dict)
    with pytest.raises(Unsupported, match="version 2"):
        Checkpoint.from_bytes(strict_cbor.encode({**values, "version": 2}))
    with pytest.raises(Corrupt, match="int is expected"):
        Checkpoint.from_bytes(strict_cbor.encode({**values, "size": "many"}))
    with pytest.raises(Corrupt, match="unknown"):
        Checkpoint.from_bytes(strict_cbor.encode({**values, "more": 1}))


def lanes(*committed: int, released: int = 0) -> tuple[LaneState, ...]:
    return tuple(LaneState(lane, 0, each, each, min(each, released), 0) for lane, each in enumerate(committed))


def test_produced_counts_the_readings_since_the_log_began() -> None:
    assert checkpoint(lanes=(LaneState(0, 40, 50, 45, 45, 2), LaneState(2, 0, 7, 0, 0, 0))).produced == 17


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        (checkpoint(3), checkpoint(3), Relation.EQUAL),
        (checkpoint(3), checkpoint(3, made_at_ms=1), Relation.EQUAL),
        (checkpoint(4), checkpoint(3), Relation.NEWER),
        (checkpoint(3, lanes=lanes(5, 6)), checkpoint(3, lanes=lanes(5, 5)), Relation.NEWER),
        (checkpoint(3, lanes=lanes(5, 6)), checkpoint(3, lanes=lanes(5)), Relation.NEWER),
        (checkpoint(3, lanes=lanes(5, released=2)), checkpoint(3, lanes=lanes(5)), Relation.NEWER),
        (checkpoint(4, lanes=lanes(5)), checkpoint(3, lanes=lanes(5)), Relation.NEWER),
        (checkpoint(3, lanes=lanes(6, 5)), checkpoint(3, lanes=lanes(5, 6)), Relation.FORKED),
        (checkpoint(4, lanes=lanes(5)), checkpoint(3, lanes=lanes(6)), Relation.FORKED),
        (checkpoint(4, lanes=lanes(9)), checkpoint(3, lanes=lanes(5, 1)), Relation.FORKED),
        (checkpoint(3, root=bytes(32)), checkpoint(3), Relation.FORKED),
        (checkpoint(3, root=bytes(32), lanes=lanes(9)), checkpoint(3, lanes=lanes(5)), Relation.FORKED),
    ],
)
def test_checkpoints_are_ordered_by_what_they_state(one: Checkpoint, other: Checkpoint, relation: Relation) -> None:
    opposite = {Relation.NEWER: Relation.OLDER, Relation.OLDER: Relation.NEWER}
    assert one.relation_to(other) is relation
    assert other.relation_to(one) is opposite.get(relation, relation)


def test_checkpoints_of_different_logs_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different logs"):
        checkpoint().relation_to(checkpoint(log=b"another-log-here"))
