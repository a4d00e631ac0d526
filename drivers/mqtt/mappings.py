"""From a topic and a payload to readings: what the settings say, and ready-made for well-known firmware. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from drivers.contract import MAX_READINGS_PER_READ
from drivers.errors import ConfigError
from drivers.mapping import PayloadReader, Quantities, Quantity, fields_of_json, reader_of
from drivers.reading import Reading, Scalar
from drivers.settings import Text

__all__ = [
    "MAX_TOPIC_LEVELS",
    "Firmware",
    "FirmwareMapping",
    "Mapping",
    "Sample",
    "Subscription",
    "SubscriptionMapping",
    "TopicReader",
    "match_topic",
    "plain_filter",
]

MAX_TOPIC_LEVELS: Final = 32
PLACEHOLDERS: Final = ("{sensor}", "{quantity}")


class Sample(NamedTuple):
    sensor: str
    quantity: str
    value: Scalar | bytes
    unit: str = ""
    mime_type: str = ""


# Of one topic. Takes what a `PayloadReader` does; None if the payload is not for this mapping.
TopicReader = Callable[[bytes, int, int | None], list[Reading] | None]


class Mapping(Protocol):
    @property
    def filters(self) -> tuple[str, ...]:
        """Topic filters to subscribe to."""

    def reader(self, topic: str) -> TopicReader | None:
        """What reads the payloads of a topic; None if that is not for this mapping."""


class Firmware(Protocol):
    """What a well-known firmware publishes."""

    @property
    def filters(self) -> tuple[str, ...]: ...

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        """What a message says; None if it is none of this firmware's. Raises ValueError if it makes no sense."""


class FirmwareMapping:
    def __init__(self, firmware: Firmware) -> None:
        self.filters = firmware.filters
        self._firmware = firmware

    def reader(self, topic: str) -> TopicReader:
        def read(payload: bytes, taken_at_ms: int, token: int | None) -> list[Reading] | None:
            samples = self._firmware.read(topic, payload)
            if samples is None:
                return None
            if len(samples) > MAX_READINGS_PER_READ:  # they are committed together
                raise ValueError(f"{len(samples)} readings in one message; the limit is {MAX_READINGS_PER_READ}")
            return [
                Reading(sensor, quantity, value, unit, taken_at_ms=taken_at_ms, mime_type=mime_type, token=token)
                for sensor, quantity, value, unit, mime_type in samples
            ]

        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """`{sensor}` and `{quantity}` in the topic stand for one level each and name what is read; + and # match only."""

    topic: Text
    format: Literal["number", "boolean", "text", "json", "raw"] = "number"
    sensor: str = ""  # where the topic does not name it; default: the driver's name
    quantity: str = ""  # where the topic does not name it (not for json)
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    quantities: Quantities = field(default_factory=dict)  # json
    mime_type: Text = "application/octet-stream"  # raw

    def __post_init__(self) -> None:
        problems = _topic_problems(self.topic)
        if self.format == "json" and not self.quantities:
            problems.append("quantities: missing; a table of what to read is wanted")
        if self.format != "json" and not self.quantity and "{quantity}" not in self.topic.split("/"):
            problems.append("quantity: missing; name it here or as {quantity} in the topic")
        if problems:
            raise ConfigError(*problems)


def _topic_problems(topic: str) -> list[str]:
    levels = topic.split("/")
    if len(levels) > MAX_TOPIC_LEVELS:
        return [f"topic: it has more than {MAX_TOPIC_LEVELS} levels"]
    if "#" in levels[:-1] or any(c in level and level not in ("+", "#") for level in levels for c in "+#"):
        return ["topic: + and # stand for whole levels, # for the last only"]
    if any("{" in level and level not in PLACEHOLDERS for level in levels):
        return ["topic: only {sensor} and {quantity} may stand in braces, each for a whole level"]
    return []


def plain_filter(topic: str) -> str:
    return "/".join("+" if level in PLACEHOLDERS else level for level in topic.split("/"))


def match_topic(pattern: str, topic: str) -> dict[str, str] | None:
    """What the placeholders stand for; None if the topic does not match."""
    wanted, given = pattern.split("/"), topic.split("/", MAX_TOPIC_LEVELS)
    if wanted[-1] == "#":
        wanted.pop()
        given = given[: len(wanted)]
    if len(wanted) != len(given):
        return None
    found: dict[str, str] = {}
    for level, text in zip(wanted, given, strict=True):
        if level in PLACEHOLDERS:
            found[level.strip("{}")] = text
        elif level not in ("+", text):
            return None
    return found


class SubscriptionMapping:
    """A subscription of the settings."""

    def __init__(self, default_sensor: str, subscription: Subscription) -> None:
        self.filters = (plain_filter(subscription.topic),)
        self._default_sensor = default_sensor
        self._subscription = subscription

    def reader(self, topic: str) -> PayloadReader | None:
        found = match_topic(self._subscription.topic, topic)
        if found is None:
            return None
        subscription = self._subscription
        sensor = found.get("sensor") or subscription.sensor or self._default_sensor
        quantity = found.get("quantity") or subscription.quantity
        if subscription.format == "raw":
            return _raw_reader(sensor, quantity, subscription.mime_type)
        if subscription.format == "json":
            return reader_of(sensor, subscription.quantities, fields_of_json)
        return reader_of(
            sensor, {quantity: _single_quantity(subscription)}, lambda payload: {quantity: payload.decode().strip()}
        )


def _raw_reader(sensor: str, quantity: str, mime_type: str) -> PayloadReader:
    return lambda payload, taken_at_ms, token: [
        Reading(sensor, quantity, payload, taken_at_ms=taken_at_ms, mime_type=mime_type, token=token)
    ]


def _single_quantity(subscription: Subscription) -> Quantity:
    """What a payload that is no document is."""
    kind: Literal["number", "boolean", "text"] = "number"
    if subscription.format in ("boolean", "text"):
        kind = subscription.format
    return Quantity(unit=subscription.unit, kind=kind, scale=subscription.scale, offset=subscription.offset)
