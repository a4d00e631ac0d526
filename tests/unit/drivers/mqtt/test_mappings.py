"""Topics and payloads by the settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import ConfigError
from drivers.mqtt.mappings import Sample, Subscription, SubscriptionMapping, match_topic, plain_filter
from drivers.settings import check_settings


def mapping(**table: Any) -> SubscriptionMapping:
    return SubscriptionMapping("broker", check_settings(Subscription, table))


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
    assert mapping(**table).read(topic, payload) == [sample]


def test_a_message_of_another_topic_is_not_ours() -> None:
    assert mapping(topic="a", quantity="x").read("b", b"1") is None


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
    try:
        assert mapping(topic="a", quantity="x", format=kind).read("a", payload)
    except ValueError:
        return
