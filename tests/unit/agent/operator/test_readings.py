import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.operator.readings import as_json, readings_in, summary_of, table_lines
from protocol.errors import WireError
from protocol.events import MEDIA_TYPE
from protocol.iomessage import IoMessage
from protocol.iomessage.content import MAX_PACK_READINGS
from protocol.lifecycle import DeviceNotice
from protocol.scalars import encode_scalar
from tests.support.pack_samples import binary_content, json_content, linked_readings


def reading(value: object = 21.5, **fields: object) -> IoMessage:
    defaults: dict[str, object] = {
        "id": "1", "timestamp": 1_700_000_000_123, "publisher": "boiler", "info_type": "temperature",
        "info_format": "Cel/cbor", "content_data": encode_scalar(value),  # type: ignore[arg-type]
    }  # fmt: skip
    return IoMessage(**{**defaults, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("encode", [binary_content, json_content])
@pytest.mark.parametrize("count", [1, 2, 250])
def test_the_readings_of_one_and_of_a_pack_are_found_in_their_order(
    encode: Callable[[Sequence[IoMessage]], str], count: int
) -> None:
    readings = linked_readings(count)
    found = readings_in(encode(readings))
    assert [each.to_bytes() for each in found] == [each.to_bytes() for each in readings]


@pytest.mark.parametrize("content", ['{"n":1}', "not json", "5", "[]", '{"a":{"ioMessages":"AAAA"}}', '{"id":"x"}'])
def test_other_content_has_no_readings(content: str) -> None:
    assert readings_in(content) == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"ioMessage":"?"}', "neither JSON nor base64"),
        ('{"ioMessages":"AAAA"}', "in a pack"),
        ('{"ioMessages":[]}', "a pack of 0 readings"),
        ('{"ioMessages":[{}]}', "without an info format or a content"),
        ('{"ioMessages":[' + ",".join(["{}"] * (MAX_PACK_READINGS + 1)) + "]}", "a pack of 1001 readings"),
        ('{"ioMessages":5}', "neither JSON nor base64"),
        ('{"ioMessages":"AA', "neither JSON nor base64"),
    ],
)
def test_content_that_begins_like_readings_and_is_none_is_refused(content: str, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        readings_in(content)


@given(st.text())
def test_any_content_gives_readings_or_a_wire_error(rest: str) -> None:
    for content in (rest, '{"ioMessages":' + rest, '{"ioMessages":"' + rest + '"}'):
        try:
            found = readings_in(content)
        except WireError:
            continue
        assert all(json.dumps(as_json(each)) for each in found)


def test_a_reading_is_shown_as_sensor_quantity_value_and_unit() -> None:
    assert summary_of(reading()) == "boiler temperature 21.5 Cel"
    assert summary_of(reading(tag="kettle")) == "kettle temperature 21.5 Cel"
    assert summary_of(reading(True, info_type="valve", info_format="/cbor")) == "boiler valve True"
    assert summary_of(reading(info_format="image/png", content_data=b"xyz")) == "boiler temperature 3 bytes image/png"
    assert summary_of(reading(content_data=b"\xff")) == "boiler temperature 1 bytes Cel"


def test_a_reading_for_scripts_has_its_value_unit_time_and_every_field() -> None:
    shown = as_json(reading())
    assert json.loads(shown.pop("io_message") and json.dumps(shown)) == {
        "sensor": "boiler", "quantity": "temperature", "value": 21.5, "unit": "Cel", "taken_at_ms": 1_700_000_000_123,
    }  # fmt: skip
    assert as_json(reading())["io_message"]["publisher"] == "boiler"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -(2**64), b"bytes"])
def test_a_value_that_json_cannot_hold_is_null(value: object) -> None:
    assert as_json(reading(value))["value"] is None


def test_an_event_of_the_agent_is_shown_with_its_fields() -> None:
    notice = DeviceNotice(device="boiler", before="up", after="down", lasted_ms=7, reason="unplugged")
    event = reading(info_type="headgate/device", info_format=MEDIA_TYPE, content_data=notice.to_bytes())
    assert summary_of(event).startswith("boiler headgate/device")
    assert "reason=unplugged" in summary_of(event)
    assert as_json(event)["value"]["after"] == "down"
    assert "reason=unplugged" in next(table_lines([event]))


def test_a_table_has_one_line_per_reading_in_columns() -> None:
    assert list(table_lines([reading(), reading(5, tag="a\x1blong name")])) == [
        "2023-11-14T22:13:20.123Z  boiler          temperature  21.5 Cel",
        "2023-11-14T22:13:20.123Z  a\\x1blong name  temperature  5 Cel",
    ]
    assert list(table_lines([])) == []
