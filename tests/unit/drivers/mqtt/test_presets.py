"""What well-known firmware publishes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.mqtt.driver import PRESETS
from drivers.mqtt.mappings import Sample, match_topic
from drivers.reading import Reading
from tests.support.firmware_messages import ESPHOME, NOT_READ, TASMOTA, ZIGBEE2MQTT

MESSAGES = {"tasmota": TASMOTA, "zigbee2mqtt": ZIGBEE2MQTT, "esphome": ESPHOME}
EACH = [(kind, *message) for kind, messages in MESSAGES.items() for message in messages]


@pytest.mark.parametrize(("kind", "topic", "payload", "samples"), EACH)
def test_a_message_of_such_firmware_is_subscribed_to_and_understood(
    kind: str, topic: str, payload: bytes, samples: list[Sample]
) -> None:
    mapping = PRESETS[kind]()
    assert any(match_topic(pattern, topic) is not None for pattern in mapping.filters)
    assert mapping.read(topic, payload) == samples


@pytest.mark.parametrize(("topic", "payload"), NOT_READ)
def test_messages_that_are_no_readings_are_left_alone(topic: str, payload: bytes) -> None:
    assert all(make().read(topic, payload) is None for make in PRESETS.values())


@pytest.mark.parametrize(
    ("kind", "topic", "payload"),
    [
        ("tasmota", "tele/x/SENSOR", b"not json"),
        ("tasmota", "tele/x/SENSOR", b"[]"),
        ("tasmota", "tele/x/LWT", b"maybe"),
        ("zigbee2mqtt", "zigbee2mqtt/x", b"{"),
        ("esphome", "x/light/y/state", b"ON"),
        ("esphome", "x/switch/y/state", b"half"),
    ],
)
def test_a_payload_that_makes_no_sense_is_a_value_error(kind: str, topic: str, payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are of several parsers
        PRESETS[kind]().read(topic, payload)


@given(
    st.sampled_from([(kind, topic) for kind, topic, _, _ in EACH]),
    st.binary(max_size=60) | st.sampled_from([payload for _, _, payload, _ in EACH]),
)
def test_any_payload_on_any_topic_gives_samples_or_a_value_error(
    kind_and_topic: tuple[str, str], payload: bytes
) -> None:
    kind, topic = kind_and_topic
    try:
        for sample in PRESETS[kind]().read(topic, payload) or []:
            if isinstance(sample, Sample):
                sensor, quantity, value, unit, mime_type = sample
                Reading(sensor, quantity, value, unit, taken_at_ms=0, mime_type=mime_type)
    except ValueError:
        return
