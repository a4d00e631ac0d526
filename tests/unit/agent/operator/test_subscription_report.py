import base64
import json

import pytest

from agent.operator.subscription import Locked, Lost, Opened, SubscriptionEvent, Unverified
from agent.operator.subscription_report import as_json_line, as_text_line
from protocol.events import MEDIA_TYPE
from protocol.iomessage import IoMessage
from protocol.lifecycle import DeviceNotice
from protocol.scalars import encode_scalar
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.ordering import ChainKey, GapLost, GapLostCause
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import Verdict

MESSAGE = StreamMessage(MessageID("0xa/boiler", 1, 1_700_000_000_123, 4, "0xab", "chain"), '{"n":1}')
GAP = GapLost(ChainKey("0xab", "chain"), MessageRef(1, 0), MessageRef(2, 0), 3, GapLostCause.UNANSWERED)


def reading(value: float) -> str:
    message = IoMessage(
        id="1" * 32, timestamp=1, publisher="boiler", info_type="temperature", info_format="Cel/cbor",
        content_data=encode_scalar(value),
    )  # fmt: skip
    return json.dumps({"ioMessage": base64.b64encode(message.to_bytes()).decode()})


def test_a_reading_is_shown_as_what_it_says() -> None:
    line = as_text_line(Opened(MESSAGE, reading(21.5)))
    assert line == "2023-11-14T22:13:20.123Z  chain  boiler temperature 21.5 Cel"


def test_a_reading_is_shown_with_the_name_beside_its_element() -> None:
    message = IoMessage(
        id="1" * 32, timestamp=1, publisher="8uCZTUZQLW5xtU9ffJXwur", tag="boiler", info_type="temperature",
        info_format="Cel/cbor", content_data=encode_scalar(21.5),
    )  # fmt: skip
    content = json.dumps({"ioMessage": base64.b64encode(message.to_bytes()).decode()})
    assert as_text_line(Opened(MESSAGE, content)).endswith("  boiler temperature 21.5 Cel")
    assert json.loads(as_json_line(Opened(MESSAGE, content)))["io_message"]["publisher"] == "8uCZTUZQLW5xtU9ffJXwur"


def event() -> str:
    notice = DeviceNotice(device="boiler", before="up", after="down", lasted_ms=7, reason="unplugged")
    message = IoMessage(
        id="1" * 32, timestamp=1, publisher="bench", info_type="headgate/device", info_format=MEDIA_TYPE,
        content_data=notice.to_bytes(),
    )  # fmt: skip
    return json.dumps({"ioMessage": base64.b64encode(message.to_bytes()).decode()})


def test_what_the_agent_tells_of_itself_is_shown_with_its_fields() -> None:
    line = as_text_line(Opened(MESSAGE, event()))
    assert "bench headgate/device" in line
    assert "after=down" in line
    assert "reason=unplugged" in line
    assert json.loads(as_json_line(Opened(MESSAGE, event())))["value"]["device"] == "boiler"


def test_a_reader_of_several_streams_sees_which_one() -> None:
    assert as_text_line(Opened(MESSAGE, '{"n":1}'), with_stream=True) == '2023-11-14T22:13:20.123Z  0xa/boiler  {"n":1}'


def test_a_reading_without_a_unit_has_none() -> None:
    message = IoMessage(
        id="1" * 32, timestamp=1, publisher="boiler", info_type="valve", info_format="/cbor",
        content_data=encode_scalar(True),
    )  # fmt: skip
    content = json.dumps({"ioMessage": base64.b64encode(message.to_bytes()).decode()})
    assert as_text_line(Opened(MESSAGE, content)).endswith("boiler valve True")


def test_a_reading_for_scripts_has_its_value_and_all_of_its_fields() -> None:
    reported = json.loads(as_json_line(Opened(MESSAGE, reading(21.5))))
    assert reported["event"] == "message"
    assert reported["value"] == 21.5
    assert reported["io_message"]
    assert (reported["stream"], reported["partition"], reported["timestamp_ms"], reported["sequence"]) == (
        "0xa/boiler", 1, 1_700_000_000_123, 4,
    )  # fmt: skip


@pytest.mark.parametrize("content", ['{"n":1}', "not json", '{"ioMessage":"?"}', '{"ioMessage":"AAAA"}', "5", "[]"])
def test_any_other_content_is_shown_as_it_is(content: str) -> None:
    assert as_text_line(Opened(MESSAGE, content)).endswith(content)
    assert "io_message" not in json.loads(as_json_line(Opened(MESSAGE, content)))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Unverified(MESSAGE, Verdict.FOREIGN), "unverified"),
        (Locked(MESSAGE, "no key"), "locked"),
        (Lost(GAP), "lost"),
    ],
)
def test_what_is_wrong_says_so(event: SubscriptionEvent, kind: str) -> None:
    assert kind.upper() in as_text_line(event)
    reported = json.loads(as_json_line(event))
    assert reported["event"] == kind
    assert reported["reason"]


def test_nothing_in_a_message_moves_the_cursor_or_fills_the_screen() -> None:
    line = as_text_line(Opened(MESSAGE, '"\x1b[2J' + "x" * 1_000))
    assert "\x1b" not in line
    assert len(line) < 400
    assert as_text_line(Opened(MESSAGE, reading(float("nan")))).endswith("nan Cel")
    assert json.loads(as_json_line(Opened(MESSAGE, reading(float("nan")))))["value"] is None
