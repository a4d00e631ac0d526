"""The presets on what real devices sent, judged by readers and writers that are not ours."""

from typing import Any

import orjson
import pytest
from hatasmota.sensor import get_sensor_entities

from drivers.mqtt.driver import PRESETS
from drivers.mqtt.mappings import Sample, match_topic
from drivers.mqtt.zigbee2mqtt import Zigbee2Mqtt
from tests.vectors.mqtt import Recorded, load, recorded

RECORDED = recorded()
TASMOTA_SENSORS = [
    message
    for message in RECORDED
    if message.topic.startswith("tele/") and message.topic.count("/") == 2 and message.topic.endswith("/SENSOR")
    if not message.is_refused
]
CONVERTED = load("zigbee2mqtt")
# The words of others for our units.
UCUM = {
    "°C": "Cel", "C": "Cel", "W": "W", "V": "V", "mV": "mV", "A": "A", "kWh": "kW.h", "VA": "V.A", "VAr": "var",
    "VAR": "var", "Hz": "Hz", "%": "%", "ppm": "[ppm]", "ppb": "[ppb]", "µg/m³": "ug/m3", "lx": "lx", "lux": "lx",
    "hPa": "hPa", "kPa": "kPa", "cm": "cm", "ppd": "/dL", "": "", None: "", "mired": "",
}  # fmt: skip
MOST = 0.9  # of the models that say the unit of a quantity; a few of thousands go their own way
MEASURED = (
    "temperature", "local_temperature", "device_temperature", "humidity", "soil_moisture", "battery", "power",
    "power_phase_b", "current", "current_phase_c", "energy", "produced_energy", "illuminance", "co2", "pm25",
    "position", "occupied_heating_setpoint", "current_heating_setpoint", "ac_frequency", "pi_heating_demand",
)  # fmt: skip


def name_of(message: Recorded) -> str:
    return f"{message.topic} of {message.device}"


@pytest.mark.parametrize("message", RECORDED, ids=name_of)
def test_a_recorded_message_means_what_it_said(message: Recorded) -> None:
    mapping = PRESETS[message.family]()
    if message.is_refused:
        with pytest.raises(ValueError, match="unexpected character"):
            mapping.read(message.topic, message.payload)
        return
    assert mapping.read(message.topic, message.payload) == message.samples
    if message.samples:
        assert any(match_topic(pattern, message.topic) is not None for pattern in mapping.filters)


def test_there_are_recordings_of_many_devices_of_each_family() -> None:
    devices = {family: {m.device for m in RECORDED if m.family == family} for family in PRESETS}
    assert all(len(found) >= 10 for found in devices.values()), devices


@pytest.mark.parametrize("message", TASMOTA_SENSORS, ids=name_of)
def test_home_assistants_reader_of_tasmota_finds_the_same_numbers_and_units(message: Recorded) -> None:
    theirs = [
        (entity.discovered_value, "Cel" if entity.unit == "F" else UCUM[entity.unit])
        for entity in entities_of(message.payload)
        if isinstance(entity.discovered_value, int | float) and entity.value_path[-1] != ""
        if entity.quantity not in ("Period", "RSSI")  # of which it knows no unit
    ]
    ours = [
        (in_their_unit(message.payload, sample), sample.unit)
        for sample in message.samples or []
        if not isinstance(sample.value, bool) and sample.quantity not in ("period", "rssi")
    ]
    assert ours == theirs


def entities_of(payload: bytes) -> list[Any]:
    address = {"mac": "000000000000", "hn": "x", "ft": "%prefix%/%topic%/", "t": "x", "tp": ["c", "s", "t"]}
    device = {**address, "ofln": "Offline", "onln": "Online", "dslp": 0}
    document = {"TempUnit": "C", **orjson.loads(payload)}
    return [entity for entity, _ in get_sensor_entities({"sn": document}, device)]


def in_their_unit(payload: bytes, sample: Sample) -> object:
    is_fahrenheit = b'"TempUnit":"F"' in payload and sample.unit == "Cel"
    return round(float(sample.value) * 1.8 + 32, 1) if is_fahrenheit else sample.value


@pytest.mark.parametrize("message", CONVERTED["messages"], ids=lambda message: str(message["model"]))
def test_what_zigbee2mqtts_own_converters_write_is_read_with_their_units(message: dict[str, Any]) -> None:
    samples = Zigbee2Mqtt().read("zigbee2mqtt/it", message["payload"].encode())
    assert samples
    payload = orjson.loads(message["payload"])
    found = {sample.quantity: sample for sample in samples}
    for name, unit in message["units"].items():
        assert found[name] == Sample("it", name, payload[name], UCUM[unit])
    assert {name for name, value in payload.items() if not isinstance(value, str)} <= set(found)


@pytest.mark.parametrize("name", [n for n in CONVERTED["units"] if n not in ("voltage", "pressure")])
def test_a_unit_we_give_by_name_is_the_one_that_nearly_all_models_have(name: str) -> None:
    """Voltage and pressure go by the size of the number instead."""
    sample = (Zigbee2Mqtt().read("zigbee2mqtt/it", orjson.dumps({name: 1})) or [])[0]
    assert isinstance(sample, Sample)
    models = {unit: count for unit, count in CONVERTED["units"][name].items() if unit}
    agreeing = sum(count for unit, count in models.items() if UCUM.get(unit) == sample.unit)
    assert not sample.unit or agreeing >= MOST * sum(models.values()), models


def test_whatever_is_measured_often_has_a_unit() -> None:
    document = orjson.dumps(dict.fromkeys(MEASURED, 1))
    samples = [each for each in Zigbee2Mqtt().read("zigbee2mqtt/it", document) or [] if isinstance(each, Sample)]
    assert [sample.quantity for sample in samples if not sample.unit] == []
