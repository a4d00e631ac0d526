import dataclasses
from typing import Any

import pytest
from nacl.signing import SigningKey

from protocol import strict_cbor
from protocol.devicelog.answer import (
    MAX_ANSWER_BYTES,
    MAX_MISSING_RANGES,
    HeartbeatAnswer,
    LogStatus,
    NumberRange,
    sign_answer,
)
from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from tests.support.archives import LOG
from tests.support.device_logs import COLLECTOR, COLLECTOR_KEY, answer, answer_statement

BOUNDS = strict_cbor.CborBounds(MAX_ANSWER_BYTES, 1000, 8)
OTHER = SigningKey(b"x" * 32)


def test_round_trip() -> None:
    for each in (
        answer(),
        answer(status=LogStatus.BEHIND, missing=()),
        answer(status=LogStatus.FORKED, extensions={"later": [1, {"a": b"x"}]}),
    ):
        assert HeartbeatAnswer.from_bytes(each.to_bytes()) == each


def test_the_longest_list_of_missing_archives_can_be_read() -> None:
    missing = tuple(NumberRange(2**31 + 3 * each, 2**31 + 3 * each + 2) for each in range(MAX_MISSING_RANGES))
    assert HeartbeatAnswer.from_bytes(answer(missing=missing).to_bytes()).missing == missing


def test_it_answers_this_checkpoint_of_this_log_at_this_collector_and_no_other() -> None:
    def answers(
        *, checkpoint: bytes = answer().checkpoint, log: bytes = LOG, collector_key: bytes = COLLECTOR_KEY
    ) -> bool:
        return answer().answers(checkpoint=checkpoint, log=log, collector_key=collector_key)

    assert answers()
    assert not answers(checkpoint=bytes(32))
    assert not answers(log=b"another-log-here")
    assert not answers(collector_key=bytes(OTHER.verify_key))


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint": bytes(32)},
        {"now_ms": 1},
        {"log": b"another-log-here"},
        {"held_root": bytes(32)},
        {"held_size": 0},
        {"missing": ()},
        {"status": LogStatus.BEHIND},
        {"extensions": {"x": 1}},
        {"collector_key": bytes(OTHER.verify_key)},
        {"signature": bytes(64)},
        {"signature": b"short"},
    ],
)
def test_an_answer_with_anything_changed_cannot_exist(change: dict[str, Any]) -> None:
    values = {each.name: getattr(answer(), each.name) for each in dataclasses.fields(HeartbeatAnswer)}
    with pytest.raises(ValueError, match=r"signed by|bytes, not|empty log"):
        HeartbeatAnswer(**{**values, **change})


@pytest.mark.parametrize(
    "missing",
    [
        (NumberRange(0, 1),),
        (NumberRange(3, 3),),
        (NumberRange(5, 6), NumberRange(2, 3)),
        (NumberRange(2, 3), NumberRange(3, 4)),
        (NumberRange(2, 2**32 + 1),),
        tuple(NumberRange(2 * each, 2 * each + 1) for each in range(1, MAX_MISSING_RANGES + 2)),
    ],
)
def test_missing_numbers_are_ranges_in_order_above_what_is_held(missing: tuple[NumberRange, ...]) -> None:
    with pytest.raises(ValueError, match="missing"):
        answer_statement(missing=missing)


def test_it_is_signed_by_the_collector_it_names() -> None:
    with pytest.raises(ValueError, match="not signed by the key it names"):
        sign_answer(answer_statement(), lambda message: OTHER.sign(message).signature)
    assert sign_answer(answer_statement(), lambda message: COLLECTOR.sign(message).signature) == answer()


def test_every_beginning_is_truncated_and_no_byte_can_change() -> None:
    data = answer().to_bytes()
    for length in range(len(data)):
        with pytest.raises(Truncated):
            HeartbeatAnswer.from_bytes(data[:length])
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            HeartbeatAnswer.from_bytes(bytes(damaged))


def test_a_later_version_is_unsupported_and_a_wrong_type_corrupt() -> None:
    values = strict_cbor.decode(answer().to_bytes(), BOUNDS)
    assert isinstance(values, dict)
    with pytest.raises(Unsupported, match="version 2"):
        HeartbeatAnswer.from_bytes(strict_cbor.encode({**values, "version": 2}))
    changes: list[dict[str, strict_cbor.CborValue]] = [
        {"held_size": "many"},
        {"status": "fine"},
        {"extensions": []},
        {"missing": [[1]]},
        {"more": 1},
    ]
    for change in changes:
        with pytest.raises(Corrupt, match="answer"):
            HeartbeatAnswer.from_bytes(strict_cbor.encode({**values, **change}))
