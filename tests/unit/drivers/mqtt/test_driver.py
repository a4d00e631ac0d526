"""From messages to readings, without a broker: what is delivered, and what is acknowledged at once."""

import asyncio
from collections.abc import Collection
from typing import Any

import orjson
import pytest

from drivers.contract import MAX_READINGS_PER_READ
from drivers.mqtt.driver import MAX_CACHED_TOPICS, MqttDriver, build
from drivers.mqtt.ledger import Message
from drivers.reading import Reading

JSON = {"topic": "plant/{sensor}/data", "format": "json", "quantities": {"t": {"unit": "Cel"}, "h": {"unit": "%"}}}


class Waiting:
    """A connection over which these came."""

    def __init__(self, *messages: Message) -> None:
        self.waiting = list(messages)
        self.acknowledged: list[int] = []

    async def receive(self, max_messages: int, timeout_s: float) -> list[Message]:  # noqa: ARG002
        received, self.waiting = self.waiting[:max_messages], self.waiting[max_messages:]
        return received

    def acknowledge(self, numbers: Collection[int]) -> None:
        self.acknowledged += numbers

    async def close(self) -> None:
        pass


def message(topic: str, payload: bytes, number: int, *, again: bool = False, retained: bool = False) -> Message:
    return Message(topic, payload, number, is_duplicate=again, is_retained=retained)


def driver_over(connection: Waiting, *subscriptions: dict[str, Any], **more: Any) -> MqttDriver:
    driver = build("gateway", {"host": "127.0.0.1", "subscriptions": list(subscriptions), **more})
    driver._link = connection  # type: ignore[assignment]
    return driver


def read(driver: MqttDriver) -> list[Reading]:
    return asyncio.run(driver.read())


def values_of(readings: list[Reading]) -> list[tuple[str, str, object]]:
    return [(reading.sensor, reading.quantity, reading.value) for reading in readings]


def test_readings_keep_the_order_of_their_messages_and_share_the_token_of_one() -> None:
    connection = Waiting(
        message("plant/b/data", b'{"t":1,"h":2}', 11),
        message("plant/a/data", b'{"h":3}', 12),
        message("plant/b/data", b'{"t":4}', 13),
    )
    readings = read(driver_over(connection, JSON))
    assert values_of(readings) == [("b", "t", 1), ("b", "h", 2), ("a", "h", 3), ("b", "t", 4)]
    tokens = [reading.token for reading in readings]
    assert tokens[0] == tokens[1]
    assert len(set(tokens)) == 3
    assert connection.acknowledged == []


@pytest.mark.parametrize("number", [0, 1])
def test_the_readings_of_one_message_are_given_together_however_many_wait(number: int) -> None:
    names = [f"q{at}" for at in range(200)]
    payload = orjson.dumps(dict.fromkeys(names, 1))
    count = MAX_READINGS_PER_READ // len(names) + 3
    connection = Waiting(*(message("plant", payload, number and at + 1) for at in range(count)))
    driver = driver_over(connection, {"topic": "plant", "format": "json", "quantities": {name: {} for name in names}})
    given = [read(driver), read(driver)]
    assert sum(map(len, given)) == count * len(names)
    assert max(map(len, given)) <= MAX_READINGS_PER_READ
    first, second = ({reading.token for reading in readings} - {None} for readings in given)
    assert first.isdisjoint(second)


@pytest.mark.parametrize("number", [0, 1])
def test_a_message_of_more_readings_than_one_read_may_give_is_damaged_and_hinders_nothing(number: int) -> None:
    flood = orjson.dumps({"AM2301": {f"T{at}": at for at in range(MAX_READINGS_PER_READ + 1)}})
    connection = Waiting(
        message("tele/a/SENSOR", flood, number), message("tele/b/SENSOR", b'{"AM2301":{"Temperature":1}}', 2)
    )
    driver = driver_over(connection, presets=["tasmota"])
    assert [reading.sensor for reading in read(driver)] == ["b/AM2301"]
    assert connection.acknowledged == [number] * number
    assert driver.quality.damaged_frames == 1


def test_what_is_committed_is_acknowledged_by_its_numbers_and_only_that() -> None:
    connection = Waiting(*(message("plant/a/data", b'{"t":%d}' % number, number) for number in range(1, 6)))
    driver = driver_over(connection, JSON)
    readings = read(driver)
    asyncio.run(driver.acknowledge([reading.token for reading in readings[:3] if reading.token is not None]))
    assert connection.acknowledged == [1, 2, 3]


def test_what_gives_no_reading_is_acknowledged_at_once_and_counted_where_it_is_damaged() -> None:
    connection = Waiting(
        message("plant/a/data", b"no JSON", 1),
        message("plant/a/data", b'{"t":1}', 2),
        message("not/requested", b"1", 3),
        message("plant/a/data", b'{"t":2}', 4, retained=True),
    )
    driver = driver_over(connection, JSON)
    assert values_of(read(driver)) == [("a", "t", 1)]
    assert connection.acknowledged == [1, 3, 4]
    assert (driver.quality.good_frames, driver.quality.damaged_frames) == (1, 1)


def test_a_message_with_one_unreadable_quantity_gives_the_others_and_rejects_that_one() -> None:
    connection = Waiting(message("plant/a/data", b'{"t":1,"h":"19,4"}', 1), message("plant/a/data", b'{"h":"wet"}', 2))
    driver = driver_over(connection, JSON)
    assert values_of(read(driver)) == [("a", "t", 1)]
    assert connection.acknowledged == [2]
    assert driver.rejects.counts == {("a", "h is not a number"): 2}
    assert [sample.raw for sample in driver.rejects.take_samples()] == [b'{"t":1,"h":"19,4"}', b'{"h":"wet"}']
    assert (driver.quality.good_frames, driver.quality.damaged_frames) == (1, 1)


def test_a_decimal_comma_is_an_option_of_the_mapping() -> None:
    quantities = {"t": {"decimal_comma": True}, "h": {"decimal_comma": True}}
    connection = Waiting(message("plant/a/data", b'{"t":"19,4","h":"1.000,5"}', 1), message("plant/b", b"7,25", 2))
    driver = driver_over(
        connection,
        {**JSON, "quantities": quantities},
        {"topic": "plant/{sensor}", "quantity": "q", "decimal_comma": True},
    )
    assert values_of(read(driver)) == [("a", "t", 19.4), ("a", "h", 1000.5), ("b", "q", 7.25)]


def test_a_message_that_cannot_be_read_at_all_is_rejected_under_its_topic() -> None:
    connection = Waiting(message("plant/a/data", b"no JSON", 1), message("plant/a/data", b'{"x":1}', 2))
    driver = driver_over(connection, JSON)
    assert read(driver) == []
    assert driver.rejects.counts == {
        ("plant/a/data", "not a JSON document"): 1,
        ("plant/a/data", "it contains none of the quantities"): 1,
    }


def test_what_comes_again_is_acknowledged_if_it_is_committed_and_else_left_under_way() -> None:
    first, second = message("plant/a/data", b'{"t":1}', 1), message("plant/a/data", b'{"t":2}', 2)
    connection = Waiting(first, second)
    driver = driver_over(connection, JSON)
    committed, _ = read(driver)
    assert committed.token is not None
    asyncio.run(driver.acknowledge([committed.token]))
    connection.waiting = [first._replace(is_duplicate=True), second._replace(is_duplicate=True)]
    assert read(driver) == []
    assert connection.acknowledged == [1, 1]


def test_messages_of_quality_0_have_no_token() -> None:
    connection = Waiting(message("plant/a/data", b'{"t":1}', 0), message("plant/a/data", b"?", 0))
    (reading,) = read(driver_over(connection, JSON))
    assert reading.token is None
    assert connection.acknowledged == []


def test_the_first_mapping_that_claims_a_message_reads_it() -> None:
    connection = Waiting(
        message("tele/plug/LWT", b"Online", 1),
        message("office/status", b"online", 2),
        message("office/status", b"busy", 3),  # words that the firmware does not claim
        message("tele/plug/LWT", b"DeepSleep", 4),  # claimed, and nothing to read
    )
    status = {"topic": "{sensor}/status", "quantity": "words", "format": "text"}
    all_else = {"topic": "#", "quantity": "never", "format": "text"}
    driver = driver_over(connection, status, all_else, presets=["tasmota", "esphome"])
    assert values_of(read(driver)) == [
        ("plug", "online", True),
        ("office", "online", True),
        ("office", "words", "busy"),
    ]
    assert connection.acknowledged == [4]


@pytest.mark.parametrize("topic", ["plant/{sensor}/data", "plant/#"])
def test_a_source_that_invents_topics_costs_no_more_memory_than_that(topic: str) -> None:
    driver = driver_over(Waiting(), {**JSON, "topic": topic})
    for start in range(0, 3 * MAX_CACHED_TOPICS, 500):
        driver._link = Waiting(  # type: ignore[assignment]
            *(message(f"plant/{number}/data", b'{"t":1}', 0) for number in range(start, start + 500))
        )
        assert len(read(driver)) == 500
        assert len(driver._readers) <= MAX_CACHED_TOPICS


@pytest.mark.parametrize(
    ("topic", "payload", "sensor", "reason"),
    [
        (
            "tele/a/SENSOR",
            b'{"AM2301":{"Temperature":"19,4","Humidity":55}}',
            "a/AM2301",
            "temperature is not a number",
        ),
        ("zigbee2mqtt/a", b'{"temperature":"19,4","humidity":55}', "a", "temperature is not a number"),
    ],
)
def test_known_firmware_with_a_number_that_cannot_be_read_gives_the_others(
    topic: str, payload: bytes, sensor: str, reason: str
) -> None:
    driver = driver_over(Waiting(message(topic, payload, 1)), presets=["tasmota", "zigbee2mqtt"])
    assert values_of(read(driver)) == [(sensor, "humidity", 55)]
    assert driver.rejects.counts == {(sensor, reason): 1}


def test_a_driver_that_replaces_another_of_its_session_knows_what_that_one_committed() -> None:
    """The broker may not have read the last acknowledgements, and delivers their messages again."""
    messages = [message("plant/b/data", b'{"t":1}', 11), message("plant/b/data", b'{"t":2}', 12)]
    old = driver_over(Waiting(*messages), JSON)
    first, _ = read(old)
    assert first.token is not None
    asyncio.run(old.acknowledge([first.token]))
    connection = Waiting(*(each._replace(is_duplicate=True) for each in messages))
    new = driver_over(connection, JSON, keepalive_s=31)
    new.continue_from(old)
    new._ledger.connected(session_is_resumed=True)
    assert values_of(read(new)) == [("b", "t", 2)]
    assert connection.acknowledged == [11]


def test_a_driver_of_another_session_knows_nothing_of_the_previous_one() -> None:
    old = driver_over(Waiting(message("plant/b/data", b'{"t":1}', 11)), JSON)
    (first,) = read(old)
    assert first.token is not None
    asyncio.run(old.acknowledge([first.token]))
    new = driver_over(Waiting(message("plant/b/data", b'{"t":1}', 11, again=True)), JSON, client_id="other")
    new.continue_from(old)
    assert values_of(read(new)) == [("b", "t", 1)]
