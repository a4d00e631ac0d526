"""Topics and payloads by the settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import ConfigError
from drivers.mqtt.mappings import (
    Firmware,
    FirmwareMapping,
    Mapping,
    Sample,
    Subscription,
    SubscriptionMapping,
    match_topic,
    plain_filter,
    without_covered,
)
from drivers.reading import Reading
from drivers.rejects import Rejects
from runtime.settings import check_settings

AT_MS = 1_700_000_000_000
TOKEN = 7


def mapping(**table: Any) -> SubscriptionMapping:
    return SubscriptionMapping("broker", check_settings(Subscription, table), Rejects().note)


def read(mapping: Mapping, topic: str, payload: bytes) -> list[Reading] | None:
    reader = mapping.reader(topic)
    return None if reader is None else reader(payload, AT_MS, TOKEN)


def reading_of(sample: Sample) -> Reading:
    sensor, quantity, value, unit, mime_type = sample
    return Reading(sensor, quantity, value, unit, taken_at_ms=AT_MS, mime_type=mime_type, token=TOKEN)


@pytest.mark.parametrize(
    ("pattern", "topic", "found"),
    [
        ("a/{sensor}/{quantity}", "a/boiler/temp", {"sensor": "boiler", "quantity": "temp"}),
        ("a/+/c", "a/b/c", {}),
        ("a/#", "a/b/c/d", {}),
        ("a/#", "a", {}),
        ("a/{sensor}/#", "a/x/y/z", {"sensor": "x"}),
        ("a/b", "a/b/c", None),
        ("a/b/c", "a/b", None),
        ("a/{sensor}", "b/x", None),
    ],
)
def test_levels_are_matched_and_named(pattern: str, topic: str, found: dict[str, str] | None) -> None:
    assert match_topic(pattern, topic) == found


@pytest.mark.parametrize(
    ("filters", "needed"),
    [
        (["plant/+/+", "plant/a/+"], ["plant/+/+"]),
        (["plant/a/n", "plant/#"], ["plant/#"]),
        (["plant", "plant/#"], ["plant/#"]),
        (["plant/+", "plant/#"], ["plant/#"]),
        (["plant/#", "plant/+"], ["plant/#"]),
        (["a/+", "a/+"], ["a/+"]),
        (["a/+", "+/a"], ["a/+", "+/a"]),
        (["a/b", "a/b/c"], ["a/b", "a/b/c"]),
        (["#", "$SYS/uptime"], ["#", "$SYS/uptime"]),
    ],
)
def test_a_filter_that_another_covers_is_not_subscribed_to(filters: list[str], needed: list[str]) -> None:
    """A broker may deliver a message once for each filter that matches its topic."""
    assert without_covered(filters) == needed


def test_the_broker_sees_only_its_own_wildcards() -> None:
    assert plain_filter("plant/{sensor}/+/{quantity}/#") == "plant/+/+/+/#"


@pytest.mark.parametrize(
    ("table", "topic", "payload", "sample"),
    [
        ({"topic": "p/{sensor}/{quantity}", "unit": "Cel"}, "p/b/t", b" 21.5", Sample("b", "t", 21.5, "Cel")),
        ({"topic": "t", "quantity": "temp", "scale": 0.1}, "t", b"215", Sample("broker", "temp", 21.5)),
        ({"topic": "t", "quantity": "p", "format": "boolean", "sensor": "s"}, "t", b"ON", Sample("s", "p", True)),
        ({"topic": "t", "quantity": "p", "format": "text"}, "t", "grün".encode(), Sample("broker", "p", "grün")),
        (
            {"topic": "cam/{sensor}", "quantity": "photo", "format": "raw", "mime_type": "image/jpeg"},
            "cam/door",
            b"\xff\xd8",
            Sample("door", "photo", b"\xff\xd8", "", "image/jpeg"),
        ),
        (
            {"topic": "w", "format": "json", "quantities": {"t": {"field": "o.t", "unit": "Cel"}}},
            "w",
            b'{"o":{"t":3}}',
            Sample("broker", "t", 3, "Cel"),
        ),
    ],
)
def test_each_format_gives_its_sample(table: dict[str, Any], topic: str, payload: bytes, sample: Sample) -> None:
    assert read(mapping(**table), topic, payload) == [reading_of(sample)]


def test_a_message_of_another_topic_is_not_ours() -> None:
    assert mapping(topic="a", quantity="x").reader("b") is None


def test_a_reader_keeps_to_its_own_topic() -> None:
    readers = [mapping(topic="p/{sensor}/{quantity}").reader(topic) for topic in ("p/a/t", "p/b/h")]
    found = [reader(b"1", AT_MS, TOKEN) for reader in readers if reader is not None]
    assert found == [[reading_of(Sample("a", "t", 1.0))], [reading_of(Sample("b", "h", 1.0))]]


@pytest.mark.parametrize(
    ("table", "topic"),
    [
        ({"topic": "p/{sensor}", "quantity": "t"}, f"p/{'s' * 129}"),
        ({"topic": "p/{sensor}", "format": "json", "quantities": {"t": {}}}, f"p/{'s' * 129}"),
        ({"topic": "p/{quantity}"}, "p/"),
        ({"topic": "p/{quantity}", "format": "raw"}, f"p/{'q' * 129}"),
        ({"topic": "p", "format": "json", "quantities": {"q" * 129: {"field": "t"}}}, "p"),
    ],
)
def test_names_that_no_reading_can_have_are_refused_with_each_message(table: dict[str, Any], topic: str) -> None:
    rejects = Rejects()
    reader = SubscriptionMapping("broker", check_settings(Subscription, table), rejects.note).reader(topic)
    assert reader is not None
    payload = b'{"t":1}' if table.get("format") == "json" else b"1"
    for _ in range(2):
        if table.get("format") == "raw":
            with pytest.raises(ValueError, match="must have 1 to 128 characters"):
                reader(payload, AT_MS, TOKEN)
        else:
            assert reader(payload, AT_MS, TOKEN) == []
    assert rejects.total == (0 if table.get("format") == "raw" else 2)
    assert all("must have 1 to 128 characters" in reason for _, reason in rejects.counts)


class Chatty:
    filters = ("chat/#",)

    def read(self, topic: str, payload: bytes) -> list[Sample] | None:
        return [Sample(topic, "a", 1, "V"), Sample(topic, "b", payload, "", "text/plain")] if payload else None


def test_what_a_firmware_says_becomes_readings_and_what_it_does_not_claim_stays_unclaimed() -> None:
    firmware: Firmware = Chatty()
    assert FirmwareMapping(firmware, Rejects().note).filters == firmware.filters
    expected = [reading_of(Sample("chat/x", "a", 1, "V")), reading_of(Sample("chat/x", "b", b"hi", "", "text/plain"))]
    assert read(FirmwareMapping(firmware, Rejects().note), "chat/x", b"hi") == expected
    assert read(FirmwareMapping(firmware, Rejects().note), "chat/x", b"") is None


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"topic": "a/#/b", "quantity": "x"}, "topic: + and #"),
        ({"topic": "a/b+", "quantity": "x"}, "topic: + and #"),
        ({"topic": "a/{name}", "quantity": "x"}, "topic: only {sensor}"),
        ({"topic": "a/x{sensor}", "quantity": "x"}, "topic: only {sensor}"),
        ({"topic": "/".join("a" * 40), "quantity": "x"}, "topic: it has more"),
        ({"topic": "a"}, "quantity: missing"),
        ({"topic": "a", "format": "json"}, "quantities: missing"),
    ],
)
def test_subscriptions_that_cannot_work_are_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mapping(**table)
    assert str(caught.value).startswith(problem)


@given(st.sampled_from(["number", "boolean", "text"]), st.binary(max_size=50))
def test_any_payload_gives_samples_or_a_value_error(kind: str, payload: bytes) -> None:
    rejects = Rejects()
    table = {"topic": "a", "quantity": "x", "format": kind}
    try:
        readings = read(SubscriptionMapping("b", check_settings(Subscription, table), rejects.note), "a", payload)
    except ValueError:
        return
    assert bool(readings) != bool(rejects.total)
