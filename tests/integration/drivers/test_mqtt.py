"""Through a real mosquitto: acknowledged only after commit, nothing lost, nothing read twice."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from drivers import DeviceError, Reading
from drivers.mqtt.driver import PRESETS, MqttDriver, build
from tests.support.brokers import Broker
from tests.support.firmware_messages import ESPHOME, NOT_READ, TASMOTA, ZIGBEE2MQTT
from tests.support.patience import PATIENCE_S
from tests.vectors.mqtt import load, recorded

pytestmark = pytest.mark.needs("mosquitto", "mosquitto")
TOPIC = "plant/boiler/temperature"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as broker:
        yield broker


def driver_of(broker: Broker, **more: Any) -> MqttDriver:
    subscriptions = [{"topic": "plant/{sensor}/{quantity}"}]
    table = {"host": "127.0.0.1", "port": broker.port, "subscriptions": subscriptions, **more}
    return build("gateway", table)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


async def read_until(driver: MqttDriver, count: int) -> list[Reading]:
    readings: list[Reading] = []
    while len(readings) < count:
        readings += await driver.read()
    return readings


def tokens_of(readings: list[Reading]) -> set[int]:
    return {reading.token for reading in readings if reading.token is not None}


async def publish(broker: Broker, values: range, **options: Any) -> None:
    await asyncio.to_thread(broker.publish, *((TOPIC, b"%d" % value) for value in values), **options)


def values_of(readings: list[Reading]) -> list[object]:
    return [reading.value for reading in readings]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_was_not_committed_comes_again_after_a_crash_and_what_was_does_not(broker: Broker, version: str) -> None:
    async def test() -> None:
        first = driver_of(broker, version=version)
        await first.open()
        await publish(broker, range(10))
        readings = await read_until(first, 10)
        assert values_of(readings) == list(range(10))
        await first.acknowledge(tokens_of(readings[:6]))
        await asyncio.sleep(0.1)  # let the acknowledgements out; a crash would keep them in
        await first.close()
        await publish(broker, range(10, 15))  # while the driver is not connected: the session is persistent
        second = driver_of(broker, version=version)
        await second.open()
        assert values_of(await read_until(second, 9)) == [6, 7, 8, 9, *range(10, 15)]
        await second.close()

    run(test)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_broken_link_between_reading_and_commit_doubles_nothing(broker: Broker, version: str) -> None:
    async def test() -> None:
        driver = driver_of(broker, version=version)
        await driver.open()
        await publish(broker, range(10))
        readings = await read_until(driver, 10)
        await driver.close()
        await driver.acknowledge(tokens_of(readings[:5]))  # committed while the link is down
        await driver.open()
        await publish(broker, range(10, 12))
        again = await read_until(driver, 2)
        assert values_of(again) == [10, 11]
        await driver.acknowledge(tokens_of(readings[5:] + again))  # the others, over the new link
        await asyncio.sleep(0.1)
        await driver.close()
        fresh = driver_of(broker, version=version)  # knows nothing; so the broker holds nothing back
        await fresh.open()
        assert await fresh.read() == []
        await fresh.close()

    run(test)


def test_more_than_the_window_flows_when_it_is_acknowledged(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        await publish(broker, range(1500))
        found: list[object] = []
        while len(found) < 1500:
            readings = await driver.read()
            found += values_of(readings)
            await driver.acknowledge(tokens_of(readings))
        assert found == list(range(1500))
        await driver.close()

    run(test)


def test_a_broker_that_does_not_speak_mqtt_as_agreed_on_is_a_failing_device() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"\x20\x02\0\0")  # CONNACK
        await reader.read(1000)
        writer.write(b"\x90\x03\0\1\1" + b"\x32\x08\0\1a\0\1 21" + b"\x34\x06\0\1a\0\2x")  # SUBACK, QoS 1, QoS 2
        assert await reader.read(1000) == b"", "the driver hangs up"
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    hung_up = asyncio.Event()

    async def test() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            driver = build(
                "gateway",
                {
                    "host": "127.0.0.1",
                    "port": port,
                    "version": "3.1.1",
                    "subscriptions": [{"topic": "a", "quantity": "t"}],
                },
            )
            await driver.open()
            with pytest.raises(DeviceError, match="the broker sends a publication of QoS 2"):
                await read_until(driver, 2)
            await hung_up.wait()
            await driver.close()

    run(test)


def test_a_broker_that_sends_more_than_agreed_on_is_held_back(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        publishing = asyncio.create_task(publish(broker, range(6000)))
        found: list[object] = []
        uncommitted: list[Reading] = []
        while len(found) < 6000:
            readings = await driver.read()
            found += values_of(readings)
            uncommitted += readings
            assert len(driver._ledger) <= 1000
            committed, uncommitted = uncommitted[:250], uncommitted[250:]  # in part, as a busy disk does it
            await driver.acknowledge(tokens_of(committed))
        await publishing
        assert found == list(range(6000))
        await driver.close()

    run(test)


def test_a_backlog_larger_than_what_may_wait_does_not_hinder_opening(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        await driver.close()
        await publish(broker, range(1500))
        await driver.open()
        readings = await read_until(driver, 1000)
        await driver.acknowledge(tokens_of(readings))
        assert values_of(readings + await read_until(driver, 500)) == list(range(1500))
        await driver.close()

    run(test)


def test_an_agent_that_does_not_commit_holds_no_more_than_the_window(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        await publish(broker, range(1500))
        readings = await read_until(driver, 1000)
        assert await driver.read() == []
        assert len(readings) == len(driver._ledger) == 1000
        await driver.close()

    run(test)


def test_a_broker_that_restarts_is_a_device_error_and_loses_nothing(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        await publish(broker, range(5))
        readings = await read_until(driver, 5)
        await asyncio.to_thread(broker.stop)
        with pytest.raises(DeviceError, match=r"gateway: mqtt://127\.0\.0\.1:\d+: .*; check address"):  # noqa: PT012
            while True:
                await driver.read()
        with pytest.raises(DeviceError, match="gateway: mqtt://"):
            await driver.open()
        await driver.acknowledge(tokens_of(readings))
        await asyncio.to_thread(broker.start)
        await driver.open()
        await publish(broker, range(5, 8))
        assert values_of(await read_until(driver, 3)) == [5, 6, 7]
        await driver.close()

    run(test)


def test_retained_messages_are_skipped_or_taken(broker: Broker) -> None:
    async def test() -> None:
        await publish(broker, range(42, 43), retain=True)
        skipping = driver_of(broker, client_id="skip")
        await skipping.open()
        assert await skipping.read() == []
        taking = driver_of(broker, client_id="take", retained="accept")
        await taking.open()
        assert values_of(await read_until(taking, 1)) == [42]
        await skipping.close()
        await taking.close()

    run(test)


def test_garbage_is_acknowledged_counted_and_reported(broker: Broker) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        await asyncio.to_thread(broker.publish, *[(TOPIC, b"\xff garbage")] * 100, (TOPIC, b"1"))
        assert values_of(await read_until(driver, 1)) == [1]
        assert driver.quality.damaged_frames == 100
        assert "plant/boiler/temperature" in driver.trouble
        assert "cable" not in driver.trouble
        assert len(driver._ledger) == 1
        await driver.close()

    run(test)


def test_what_well_known_firmware_publishes_arrives_as_readings(broker: Broker) -> None:
    published = [*TASMOTA, *ZIGBEE2MQTT, *ESPHOME]
    expected = [sample for _, _, samples in published for sample in samples]

    async def test() -> None:
        driver = driver_of(broker, presets=list(PRESETS), subscriptions=[])
        await driver.open()
        messages = [(topic, payload) for topic, payload, _ in published]
        await asyncio.to_thread(broker.publish, *NOT_READ, *messages)
        readings = await read_until(driver, len(expected))
        found = [(r.sensor, r.quantity, r.value, r.unit, r.mime_type) for r in readings]
        assert found == [tuple(sample) for sample in expected]
        assert driver.trouble == ""
        await driver.close()

    run(test)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_real_devices_sent_arrives_once_as_what_it_said(broker: Broker, version: str) -> None:
    messages = recorded()
    expected = [tuple(sample) for message in messages for sample in message.samples or []]

    async def test() -> None:
        driver = driver_of(broker, version=version, presets=list(PRESETS), subscriptions=[])
        await driver.open()
        await asyncio.to_thread(broker.publish, *((message.topic, message.payload) for message in messages))
        readings: list[Reading] = []
        while len(readings) < len(expected):
            came = await driver.read()
            await driver.acknowledge(tokens_of(came))  # by the older version the broker sends few ahead
            readings += came
        assert [(r.sensor, r.quantity, r.value, r.unit, r.mime_type) for r in readings] == expected
        assert driver.quality.damaged_frames == sum(message.is_refused for message in messages) == 1
        assert driver.trouble == ""
        assert await driver.read() == []
        assert len(driver._ledger) == 0
        await driver.close()

    run(test)


def test_what_zigbee2mqtts_converters_write_comes_through(broker: Broker) -> None:
    messages = load("zigbee2mqtt")["messages"]
    quantities = sum(len(message["units"]) for message in messages)

    async def test() -> None:
        driver = driver_of(broker, presets=["zigbee2mqtt"], subscriptions=[])
        await driver.open()
        payloads = [(f"zigbee2mqtt/{message['model']}", message["payload"].encode()) for message in messages]
        await asyncio.to_thread(broker.publish, *payloads)
        readings: list[Reading] = []
        while {reading.sensor for reading in readings} != {message["model"] for message in messages}:
            readings += await driver.read()
        assert sum(reading.unit != "" for reading in readings) >= quantities - 3  # brightness and indices have none
        assert driver.quality.damaged_frames == 0
        await driver.close()

    run(test)


def test_a_retained_last_will_of_a_device_is_read_where_retained_messages_are_taken(broker: Broker) -> None:
    wills = [m for m in recorded() if m.topic.endswith(("LWT", "/status")) and m.samples]
    expected = sorted(sample.sensor for message in wills for sample in message.samples or [])

    async def test() -> None:
        await asyncio.to_thread(broker.publish, *((m.topic, m.payload) for m in wills), retain=True)
        driver = driver_of(broker, presets=list(PRESETS), subscriptions=[], retained="accept")
        await driver.open()
        readings = await read_until(driver, len(expected))
        assert sorted(reading.sensor for reading in readings) == expected
        assert all(reading.quantity == "online" and reading.value is True for reading in readings)
        await driver.close()

    run(test)


def test_a_wrong_password_is_reported_without_the_password(broker: Broker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    broker.stop()
    config = tmp_path / "mosquitto.conf"
    config.write_text(config.read_text().replace("allow_anonymous true", "allow_anonymous false"))
    broker.start()
    secret.write_text("correct horse\n")
    secret.chmod(0o644)

    async def test() -> None:
        driver = driver_of(broker, username="gateway", password_file=str(secret))
        with pytest.raises(DeviceError, match="secret: others can read or change it"):
            await driver.open()
        secret.chmod(0o600)
        with pytest.raises(DeviceError, match="Not authorized") as caught:
            await driver.open()
        assert "horse" not in str(caught.value) + repr(driver.settings)

    run(test)


@pytest.mark.needs("openssl", "openssl")
def test_over_tls_nothing_stays_behind_in_the_decrypted_buffer(broker: Broker, tmp_path: Path) -> None:
    """Many small messages in one TLS record: the socket is not readable again when the first of them is taken."""
    certificate, key = tmp_path / "broker.crt", tmp_path / "broker.key"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *options.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    broker.stop()
    broker.add_tls_listener(certificate, key)
    broker.start()

    async def test() -> None:
        driver = driver_of(broker, port=broker.tls_port, tls="on", ca_file=str(certificate))
        await driver.open()
        await publish(broker, range(300))
        readings = await read_until(driver, 300)
        await driver.acknowledge(tokens_of(readings))
        await driver.close()
        unknown = driver_of(broker, port=broker.tls_port, tls="on")
        with pytest.raises(DeviceError, match="certificate"):
            await unknown.open()

    run(test)


def test_a_probe_neither_takes_the_agents_session_nor_its_messages(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        driver = driver_of(broker)
        await driver.open()
        settings = [f"port={broker.port}", "host=127.0.0.1", 'subscriptions=[{topic="plant/{sensor}/{quantity}"}]']
        command = ["probe", "mqtt", *settings, "--count", "1"]
        probe = asyncio.create_task(asyncio.to_thread(main, command))
        seen: list[object] = []
        while not probe.done():
            await publish(broker, range(1))
            readings = await driver.read()
            await driver.acknowledge(tokens_of(readings))
            seen += values_of(readings)
        assert probe.result() == 0
        assert seen
        await driver.close()

    run(test)
    assert "temperature" in capsys.readouterr().out
