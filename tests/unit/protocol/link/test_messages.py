"""What a message's constructor and its reader refuse."""

from collections.abc import Callable
from typing import Any

import cbor2
import pytest

from protocol.errors import Corrupt, Unsupported
from protocol.link import (
    Ack,
    Command,
    CommandDescription,
    CommandResult,
    CommandStatus,
    DescriptionRequest,
    Feature,
    Frame,
    FrameType,
    Hello,
    LogLevel,
    LogLine,
    Record,
    Sample,
    SensorDescription,
    Sync,
    Time,
    TimeRequest,
    UpdateBegin,
    UpdateChunk,
    UpdateReason,
    UpdateState,
    UpdateStatus,
    message_in,
)
from tests.vectors.link import load


def _hello(**change: Any) -> Hello:
    values: dict[str, Any] = {
        "host_nonce": b"n" * 8,
        "boot_id": b"b" * 8,
        "syncs": 1,
        "device_id": "a-device",
        "firmware": "1.0",
        "mtu": 256,
        "window": 4,
        "sensors": 1,
        "commands": 1,
        "schema": 1,
        "next_rseq": 0,
        "dropped": 0,
        "last_command": 0,
        "uptime_ms": 0,
        "features": Feature(0),
    }
    return Hello(**values | change)


def _sensor(**change: Any) -> SensorDescription:
    values: dict[str, Any] = {"index": 0, "name": "n", "quantity": "q", "unit": "V", "exponent": 0}
    return SensorDescription(**values | change)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Sync(host_nonce=b"short", retry_ms=1), "host_nonce of 5 bytes"),
    (lambda: Sync(host_nonce=bytes(8), retry_ms=0), "retry_ms 0"),
    (lambda: Sync(host_nonce=bytes(8), retry_ms=60_001), "retry_ms 60001"),
    (lambda: _hello(host_nonce=b"1"), "host_nonce of 1 bytes"),
    (lambda: _hello(boot_id=b""), "boot_id of 0 bytes"),
    (lambda: _hello(device_id=""), "device_id ''"),
    (lambda: _hello(device_id="ä" * 17), "device_id .* is not 1 to 32 bytes"),
    (lambda: _hello(firmware="1\n2"), "firmware .* printable"),
    (lambda: _hello(device_id="\ud800"), "device_id"),
    (lambda: _hello(mtu=159), "mtu 159"),
    (lambda: _hello(mtu=1025), "mtu 1025"),
    (lambda: _hello(window=0), "window 0"),
    (lambda: _hello(window=17), "window 17"),
    (lambda: _hello(sensors=256), "sensors 256"),
    (lambda: _hello(next_rseq=2**32), "next_rseq"),
    (lambda: _hello(uptime_ms=2**48), "uptime_ms"),
    (lambda: Ack(committed_rseq=-1), "committed_rseq -1"),
    (lambda: TimeRequest(token=2**32), "token"),
    (lambda: Time(token=0, uptime_ms=-1), "uptime_ms -1"),
    (lambda: DescriptionRequest(index=511), "index 511"),
    (lambda: _sensor(index=255), "index 255"),
    (lambda: _sensor(exponent=19), "exponent 19"),
    (lambda: _sensor(unit="u" * 17), "unit"),
    (lambda: CommandDescription(index=0, name="", argument=""), "name"),
    (lambda: Record(rseq=0, uptime_ms=0, samples=()), "0 samples"),
    (lambda: Record(rseq=0, uptime_ms=0, samples=(Sample(0, 0),) * 65), "65 samples"),
    (lambda: Record(rseq=0, uptime_ms=0, samples=(Sample(255, 0),)), "sensor 255"),
    (lambda: Record(rseq=0, uptime_ms=0, samples=(Sample(0, 2**63),)), "out of range"),
    (lambda: LogLine(number=0, level=LogLevel.INFO, text="x" * 201), "text"),
    (lambda: LogLine(number=0, level=LogLevel.INFO, text="\x1b[2J"), "printable"),
    (lambda: Command(id=0, command=0), "id 0"),
    (lambda: Command(id=1, command=511), "command 511"),
    (lambda: Command(id=1, command=0, argument=2**31), "32 bits"),
    (lambda: Command(id=1, command=0, argument="x" * 65), "64 bytes"),
    (lambda: CommandResult(id=0, status=CommandStatus.DONE), "id 0"),
    (lambda: UpdateBegin(manifest=b"", signature=bytes(64)), "manifest of 0"),
    (lambda: UpdateBegin(manifest=b"m", signature=bytes(63)), "signature of 63"),
    (lambda: UpdateChunk(offset=0, data=b""), "data of 0"),
    (lambda: UpdateChunk(offset=2**32, data=b"x"), "offset"),
    (lambda: UpdateStatus(next_offset=-1, state=UpdateState.IDLE, reason=UpdateReason.NONE), "next_offset"),
]


@pytest.mark.parametrize(("build", "problem"), REFUSED)
def test_a_message_that_the_wire_cannot_carry_does_not_exist(build: Callable[[], object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build()


def _in_frame(kind: FrameType, items: object) -> Frame:
    return Frame(kind=kind, session=7, payload=cbor2.dumps(items, canonical=True))


def test_hello_and_descriptions_may_grow_at_their_end() -> None:
    for case in load("frames"):
        if case["type"] in (FrameType.HELLO, FrameType.DESC):
            items = [bytes.fromhex(item["hex"]) if isinstance(item, dict) else item for item in case["items"]]
            kind = FrameType(case["type"])
            assert message_in(_in_frame(kind, [*items, "news", 5])) == message_in(_in_frame(kind, items))


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (FrameType.READING, [1, 2]),
        (FrameType.READING, [1, 2, 3]),
        (FrameType.READING, [1, 2, 0, "x"]),
        (FrameType.READING, [1, 2, 0, True]),
        (FrameType.READING, [1, 2, None, 0]),
        (FrameType.READING, [1, 2, *([0, 0] * 65)]),
        (FrameType.READING, [1, 2, [0], 0]),
        (FrameType.LOG, [0, 4, "level"]),
        (FrameType.RESULT, [1, 9, None]),
        (FrameType.FW_STATUS, [0, 5, 0]),
        (FrameType.FW_STATUS, [0, 0, 12]),
        (FrameType.HELLO, [b""] * 15),
        (FrameType.HELLO, [b""]),
        (FrameType.DESC, [0]),
        (FrameType.DESC, {"index": 0}),
        (FrameType.ACK, [-1]),
    ],
)
def test_nonsense_in_a_whole_frame_is_corrupt_and_says_in_what(kind: FrameType, items: object) -> None:
    with pytest.raises(Corrupt, match=kind.name):
        message_in(_in_frame(kind, items))


def test_a_log_line_is_read_without_what_a_terminal_would_obey() -> None:
    line = message_in(_in_frame(FrameType.LOG, [0, 1, "21\u00a0°C\x1b[2J\n"]))
    assert line == LogLine(number=0, level=LogLevel.INFO, text="21?°C?[2J?")


def test_a_description_of_an_unknown_kind_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="kind 2"):
        message_in(_in_frame(FrameType.DESC, [0, 2, "name"]))


@pytest.mark.parametrize("value", [[1], {}, 1.5, True])
def test_a_command_takes_numbers_texts_and_nothing(value: object) -> None:
    with pytest.raises(ValueError, match="is no value of a command"):
        Command(id=1, command=1, argument=value)  # type: ignore[arg-type] # as from JSON
