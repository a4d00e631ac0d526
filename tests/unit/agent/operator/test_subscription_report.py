import json

import pytest

from agent.operator.contents import Locked, Opened, Unreadable, open_content
from agent.operator.subscription import Broken, Lost, SubscriptionEvent, Unverified
from agent.operator.subscription_report import as_json_lines, as_text_lines
from protocol.iomessage import IoMessage
from protocol.scalars import encode_scalar
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.ordering import ChainKey, GapLost, GapLostCause
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import Verdict
from tests.support.pack_samples import binary_content, json_content, linked_readings

MESSAGE = StreamMessage(MessageID("0xa/boiler", 1, 1_700_000_000_123, 4, "0xab", "chain"), '{"n":1}')
GAP = GapLost(ChainKey("0xab", "chain"), MessageRef(1, 0), MessageRef(2, 0), 3, GapLostCause.UNANSWERED)


def opened(content: str) -> Opened:
    event = open_content(MESSAGE, content)
    assert isinstance(event, Opened)
    return event


def reading(value: float) -> IoMessage:
    return IoMessage(
        id="1" * 32, timestamp=1_700_000_000_000, publisher="boiler", info_type="temperature", info_format="Cel/cbor",
        content_data=encode_scalar(value),
    )  # fmt: skip


def test_a_reading_is_one_line_with_the_time_when_it_was_taken() -> None:
    (line,) = as_text_lines(opened(binary_content([reading(21.5)])))
    assert line == "2023-11-14T22:13:20.000Z  chain  boiler temperature 21.5 Cel"


@pytest.mark.parametrize("encode", [binary_content, json_content])
def test_a_pack_is_one_line_per_reading_each_with_its_own_time(encode: object) -> None:
    event = opened(encode(linked_readings(3)))  # type: ignore[operator]
    assert list(as_text_lines(event, with_stream=True)) == [
        "2023-11-14T22:13:20.000Z  0xa/boiler  boiler temperature 20.0 Cel",
        "2023-11-14T22:13:21.000Z  0xa/boiler  boiler temperature 20.5 Cel",
        "2023-11-14T22:13:22.000Z  0xa/boiler  boiler temperature 21.0 Cel",
    ]


def test_a_pack_for_scripts_is_one_object_per_reading_with_its_place_in_the_message() -> None:
    reported = [json.loads(line) for line in as_json_lines(opened(binary_content(linked_readings(3))))]
    assert [each["event"] for each in reported] == ["reading"] * 3
    assert [(each["reading"], each["readings"]) for each in reported] == [(0, 3), (1, 3), (2, 3)]
    assert [each["value"] for each in reported] == [20.0, 20.5, 21.0]
    assert [each["io_message"]["chainposition"] for each in reported] == [0, 1, 2]
    for each in reported:
        assert (each["stream"], each["partition"], each["timestamp_ms"], each["sequence"]) == (
            "0xa/boiler", 1, 1_700_000_000_123, 4,
        )  # fmt: skip


def test_a_reader_of_several_streams_sees_which_one() -> None:
    (line,) = as_text_lines(opened('{"n":1}'), with_stream=True)
    assert line == '2023-11-14T22:13:20.123Z  0xa/boiler  {"n":1}'


@pytest.mark.parametrize("content", ['{"n":1}', "not json", "5", "[]"])
def test_any_other_content_is_shown_as_it_is(content: str) -> None:
    (line,) = as_text_lines(opened(content))
    assert line.endswith(content)
    (shown,) = map(json.loads, as_json_lines(opened(content)))
    assert shown["event"] == "message"
    assert "io_message" not in shown


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Unverified(MESSAGE, Verdict.FOREIGN), "unverified"),
        (Unreadable(MESSAGE, "a pack of 5000 readings"), "unreadable"),
        (Broken(MESSAGE, "1 of 3 readings"), "broken"),
        (Locked(MESSAGE, "no key"), "locked"),
        (Lost(GAP), "lost"),
    ],
)
def test_what_is_wrong_says_so(event: SubscriptionEvent, kind: str) -> None:
    (line,) = as_text_lines(event)
    assert kind.upper() in line
    (reported,) = map(json.loads, as_json_lines(event))
    assert reported["event"] == kind
    assert reported["reason"]


def test_nothing_in_a_message_moves_the_cursor_or_fills_the_screen() -> None:
    (line,) = as_text_lines(opened('"\x1b[2J' + "x" * 1_000))
    assert "\x1b" not in line
    assert len(line) < 400
    (line,) = as_text_lines(opened(binary_content([reading(float("nan"))])))
    assert line.endswith("nan Cel")
