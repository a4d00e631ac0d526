"""The codec against bytes that others put together. The C library is judged by the same: tests/unit/firmware_bridge."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import Corrupt, WireError
from protocol.link import (
    Ack,
    Authenticator,
    Command,
    CommandDescription,
    CommandResult,
    CommandStatus,
    Damaged,
    DescriptionRequest,
    Direction,
    Feature,
    Frame,
    FrameType,
    Hello,
    LinkDecoder,
    LogLevel,
    LogLine,
    Message,
    Record,
    Sample,
    SensorDescription,
    Sync,
    Time,
    TimeRequest,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
    derive_session_key,
    frame_of,
    message_in,
    schema_of,
)
from protocol.link.cobs import stuff, unstuff
from tests.vectors.link import load

FRAMES = load("frames")
PRIMITIVES = load("primitives")
SESSION_KEY = bytes.fromhex(PRIMITIVES["session_keys"][1]["session_key"])
HELLO_FIELDS = [
    "host_nonce",
    "boot_id",
    "syncs",
    "device_id",
    "firmware",
    "mtu",
    "window",
    "sensors",
    "commands",
    "schema",
    "next_rseq",
    "dropped",
    "last_command",
    "uptime_ms",
]


def _hello(*items: Any) -> Hello:
    return Hello(**dict(zip(HELLO_FIELDS, items[:-1], strict=True)), features=Feature(items[-1]))


def _description(index: int, kind: int, name: str, *rest: Any) -> Message:
    if kind == 1:
        return CommandDescription(index=index, name=name, argument=rest[0])
    return SensorDescription(index=index, name=name, quantity=rest[0], unit=rest[1], exponent=rest[2])


def _record(rseq: int, uptime_ms: int, *flat: Any) -> Record:
    samples = tuple(Sample(*pair) for pair in zip(flat[::2], flat[1::2], strict=True))
    return Record(rseq=rseq, uptime_ms=uptime_ms, samples=samples)


BUILD: dict[FrameType, Callable[..., Message]] = {
    FrameType.SYNC: lambda nonce, retry: Sync(host_nonce=nonce, retry_ms=retry),
    FrameType.HELLO: _hello,
    FrameType.DESC_REQ: lambda index: DescriptionRequest(index=index),
    FrameType.DESC: _description,
    FrameType.READING: _record,
    FrameType.ACK: lambda committed: Ack(committed_rseq=committed),
    FrameType.TIME_REQ: lambda token: TimeRequest(token=token),
    FrameType.TIME: lambda token, uptime: Time(token=token, uptime_ms=uptime),
    FrameType.COMMAND: lambda number, command, argument: Command(id=number, command=command, argument=argument),
    FrameType.RESULT: lambda number, status, value: CommandResult(id=number, status=CommandStatus(status), value=value),
    FrameType.LOG: lambda number, level, text: LogLine(number=number, level=LogLevel(level), text=text),
    FrameType.FW_BEGIN: lambda manifest, signature: UpdateBegin(manifest=manifest, signature=signature),
    FrameType.FW_CHUNK: lambda offset, data: UpdateChunk(offset=offset, data=data),
    FrameType.FW_END: UpdateEnd,
    FrameType.FW_CONFIRM: UpdateConfirm,
    FrameType.FW_QUERY: UpdateQuery,
    FrameType.FW_STATUS: lambda offset, state, reason: UpdateStatus(
        next_offset=offset, state=UpdateState(state), reason=UpdateReason(reason)
    ),
}


def _item(item: Any) -> Any:
    return bytes.fromhex(item["hex"]) if isinstance(item, dict) else item


def test_every_type_has_a_vector() -> None:
    assert {case["type"] for case in FRAMES} == set(FrameType) == set(BUILD)


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case["name"])
def test_a_message_becomes_the_frame_that_others_write(case: dict[str, Any]) -> None:
    message = BUILD[FrameType(case["type"])](*map(_item, case["items"]))
    frame = frame_of(message, session=case["session"], seq=case["seq"], is_nak=case["nak"])
    if "counter" in case:
        authenticator = Authenticator(SESSION_KEY, sends=Direction(case["direction"]))
        authenticator._next_sent = case["counter"]
        frame = authenticator.prove(frame)
    assert frame.to_bytes().hex() == case["wire"]


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case["name"])
def test_a_frame_of_others_becomes_the_message(case: dict[str, Any]) -> None:
    (frame,) = LinkDecoder().feed(bytes.fromhex(case["wire"]))
    assert isinstance(frame, Frame)
    assert (frame.kind, frame.session, frame.seq, frame.is_nak) == tuple(
        case[name] for name in ("type", "session", "seq", "nak")
    )
    assert message_in(frame) == BUILD[frame.kind](*map(_item, case["items"]))
    if "counter" in case:
        Authenticator(SESSION_KEY, sends=Direction(1 - case["direction"])).check(frame)


@pytest.mark.parametrize("case", load("bad"), ids=lambda case: case["name"])
def test_invalid_vectors_are_refused_with_their_kind_of_error(case: dict[str, str]) -> None:
    (event,) = LinkDecoder().feed(bytes.fromhex(case["wire"]))
    if case["says"] == "payload":
        assert isinstance(event, Frame)
        with pytest.raises(WireError):
            message_in(event)
    else:
        assert isinstance(event, Damaged)
        assert event.is_foreign == (case["says"] == "foreign"), event


@pytest.mark.parametrize("conversation", load("conversations"), ids=lambda conversation: conversation["name"])
def test_everything_said_in_a_conversation_can_be_read_and_said_again(conversation: dict[str, Any]) -> None:
    for step in conversation["steps"]:
        for side in step.keys() & {"host", "device"}:
            (frame,) = LinkDecoder().feed(bytes.fromhex(step[side]))
            assert isinstance(frame, Frame)
            assert message_in(frame).to_bytes() == frame.payload
            assert frame.to_bytes().hex() == step[side]


def test_stuffing_is_that_of_others() -> None:
    for text, stuffed in PRIMITIVES["cobs"] + PRIMITIVES["by_hand"]["cobs"]:
        assert stuff(bytes.fromhex(text)).hex() == stuffed
        assert unstuff(bytes.fromhex(stuffed)).hex() == text


def test_session_keys_are_those_of_others() -> None:
    for case in PRIMITIVES["session_keys"]:
        key = derive_session_key(
            bytes.fromhex(PRIMITIVES["key"]),
            host_nonce=bytes.fromhex(case["nonce"]),
            boot_id=bytes.fromhex(case["boot_id"]),
            syncs=case["syncs"],
        )
        assert key.hex() == case["session_key"]


def test_the_schema_of_the_descriptions_is_the_one_in_hello() -> None:
    described = [
        _description(*case["items"]) for case in FRAMES if case["name"].startswith("description ") and case["type"] == 4
    ]
    (hello,) = (_hello(*map(_item, case["items"])) for case in FRAMES if case["name"] == "hello, an answer")
    assert (
        schema_of(item for item in described if isinstance(item, SensorDescription | CommandDescription))
        == hello.schema
    )


def test_a_frame_of_another_direction_or_session_proves_nothing() -> None:
    (case,) = (case for case in FRAMES if case["name"] == "proved reading")
    (frame,) = LinkDecoder().feed(bytes.fromhex(case["wire"]))
    assert isinstance(frame, Frame)
    for key, sends in ((SESSION_KEY, Direction.TO_HOST), (bytes(32), Direction.TO_DEVICE)):
        with pytest.raises(Corrupt, match="another key, session or direction"):
            Authenticator(key, sends=sends).check(frame)
