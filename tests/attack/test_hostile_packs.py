"""Packs that a hostile publisher signed: each is refused with a reason and in bounded memory, or shown without harm."""

import base64
import io
import json
import struct
import sys
import tracemalloc

import pytest

from agent.cli import main
from agent.operator.contents import Opened, Unreadable
from agent.operator.subscription import Broken, Subscription
from agent.operator.subscription_report import as_json_lines, as_text_lines
from protocol.events import MEDIA_TYPE
from protocol.iomessage import IoMessage
from protocol.iomessage.as_bytes import HEADER
from protocol.iomessage.content import MAX_PACK_BYTES, MAX_PACK_READINGS
from protocol.scalars import encode_scalar
from tests.support.pack_samples import START_MS, binary_content, linked_readings, signed_message

MAX_MEMORY_PER_CHARACTER = 40
READINGS = linked_readings(3)
SMALLEST = struct.pack(">H", 4) + bytes(HEADER.size - 2)  # a header whose 19 values are all empty


def pack_of(data: bytes) -> str:
    return f'{{"ioMessages":"{base64.b64encode(data).decode()}"}}'


def with_length(offset: int, length: bytes) -> bytes:
    """The readings, with another length of a value in the header of the second."""
    first, second, third = (each.to_bytes() for each in READINGS)
    return first + second[:offset] + length + second[offset + len(length) :] + third


REFUSED = {
    "no reading": pack_of(b""),
    "too many readings": pack_of(SMALLEST * (MAX_PACK_READINGS + 1)),
    "too many bytes": pack_of(bytes(MAX_PACK_BYTES + 1)),
    "readings of nothing": pack_of(SMALLEST * 2),
    "a length of four gigabytes": pack_of(with_length(29, b"\xff\xff\xff\xff")),
    "a length that is one too small": pack_of(with_length(2, b"\x00")),
    "the last reading cut short": pack_of(b"".join(each.to_bytes() for each in READINGS)[:-1]),
    "bytes after the last reading": pack_of(b"".join(each.to_bytes() for each in READINGS) + b"\x00"),
    "another version": pack_of(READINGS[0].to_bytes() + b"\x00\x05" + bytes(31)),
    "no base64": '{"ioMessages":"?"}',
    "a number": '{"ioMessages":5}',
    "null and a reading": '{"ioMessages":null,"ioMessage":null}',
    "both forms": '{"ioMessage":"AAAA","ioMessages":"AAAA"}',
    "an object": '{"ioMessages":{}}',
    "a million objects": '{"ioMessages":[' + ",".join(["{}"] * 1_000_000) + "]}",
    "objects that are no readings": '{"ioMessages":[{},{}]}',
    "numbers": '{"ioMessages":[1,2,3]}',
    "deep nesting": '{"ioMessages":' + "[" * 100_000,
    "a string without an end": '{"ioMessages":"',
}


def with_value(value: bytes, **fields: object) -> IoMessage:
    plain = {
        "id": "1", "timestamp": START_MS, "publisher": "p", "info_type": "t", "info_format": "Cel/cbor",
        "content_data": value,
    }  # fmt: skip
    return IoMessage(**{**plain, **fields})  # type: ignore[arg-type]


SHOWN = {
    "escapes": [with_value(encode_scalar("\x1b[2J\x07\u202e"), tag="\x1b]0;owned\x07", info_type="\x9b2J")] * 2,
    "long texts": [with_value(encode_scalar("x" * 30_000), tag="y" * 30_000)] * 1,
    "odd numbers": [with_value(encode_scalar(value)) for value in (float("nan"), float("-inf"), -(2**64), 2**64 - 1)],
    "no CBOR": [with_value(b"\xff" * 9), with_value(b""), with_value(b"\x9f" * 5_000)],
    "events that are none": [with_value(value, info_format=MEDIA_TYPE) for value in (b"", b"\xa1", b"\x81" * 4_000)],
    "times beyond any calendar": [with_value(b"\x01", timestamp=2**64 - 1), with_value(b"\x01", timestamp=0)],
    "hashes that are none": [with_value(b"\x01", hash="not hex", chain_position=2**64 - 1)] * 2,
}


def events_of(content: str) -> list[object]:
    subscription = Subscription(lambda: "request")
    return list(subscription.take(signed_message(content), START_MS))


@pytest.mark.parametrize("name", REFUSED)
def test_a_subscriber_refuses_it_with_a_reason(name: str) -> None:
    tracemalloc.start()
    try:
        (event,) = events_of(REFUSED[name])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(event, Unreadable)
    assert peak_bytes < MAX_MEMORY_PER_CHARACTER * len(REFUSED[name]) + 1_000_000
    (line,) = as_text_lines(event)
    assert "UNREADABLE: " in line
    assert len(line) < 500
    assert line.isprintable()


@pytest.mark.parametrize("action", ["decode", "verify", "convert"])
@pytest.mark.parametrize("name", REFUSED)
def test_the_message_command_refuses_it_with_a_reason(
    name: str, action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = signed_message(REFUSED[name]).serialize().encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["message", action]) == 65
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert len(captured.out + captured.err) < 3_000
    assert (
        ("StreamMessage 1: " in captured.err)
        if action == "convert"
        else ("readings          unreadable: " in captured.out)
    )


@pytest.mark.parametrize("name", SHOWN)
def test_odd_readings_are_shown_without_harm(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = binary_content(SHOWN[name])
    events = events_of(content)
    assert {type(event) for event in events} <= {Opened, Broken}
    for event in events:
        assert all(line.isprintable() and len(line) < 500 for line in as_text_lines(event))  # type: ignore[arg-type]
        assert all(json.loads(line) for line in as_json_lines(event))  # type: ignore[arg-type]
    for options in ([], ["--json"]):
        text = signed_message(content).serialize().encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert main(["message", "decode", *options]) == 0
        shown = capsys.readouterr().out
        assert json.loads(shown) if options else all(line.isprintable() for line in shown.splitlines())


def test_a_pack_in_which_every_reading_breaks_the_chain_is_one_line() -> None:
    altered = [IoMessage._make(each._replace(tag="other")) for each in linked_readings(250)]
    broken, opened = events_of(binary_content(altered))
    assert isinstance(broken, Broken)
    assert "250 of 250 readings" in broken.reason
    assert isinstance(opened, Opened)
