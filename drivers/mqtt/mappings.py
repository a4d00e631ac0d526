"""From a topic and a payload to samples: what the settings say, and ready-made for well-known firmware. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

from drivers.errors import ConfigError
from drivers.mapping import Quantities, Quantity, fields_of_json, measure
from drivers.reading import Scalar
from drivers.settings import Text

__all__ = [
    "MAX_TOPIC_LEVELS",
    "Mapping",
    "Sample",
    "Subscription",
    "SubscriptionMapping",
    "match_topic",
    "plain_filter",
]

MAX_TOPIC_LEVELS: Final = 32
MAX_REMEMBERED_TOPICS: Final = 1024  # a source that invents topics costs time, not memory
PLACEHOLDERS: Final = ("{sensor}", "{quantity}")


class Sample(NamedTuple):
    sensor: str
    quantity: str
    value: Scalar | bytes
    unit: str = ""
    mime_type: str = ""


_sample: Final = partial(tuple.__new__, Sample)


class Mapping(Protocol):
    @property
    def filters(self) -> tuple[str, ...]:
        """Topic filters to subscribe to."""

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        """What a message says; None if it is not for this mapping. Raises ValueError if it makes no sense."""


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
        self._single = _single_quantity(subscription)
        self._named: dict[str, tuple[str, str] | None] = {}  # topic ──► sensor and quantity

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        subscription = self._subscription
        named = self._named[topic] if topic in self._named else self._remember(topic)
        if named is None:
            return None
        sensor, quantity = named
        if subscription.format == "raw":
            return [Sample(sensor, quantity, payload, "", subscription.mime_type)]
        if subscription.format == "json":
            found = measure(fields_of_json(payload), subscription.quantities)
        else:
            found = measure({quantity: payload.decode().strip()}, {quantity: self._single})
        return [_sample((sensor, name, value, unit, "")) for name, value, unit in found]

    def _remember(self, topic: str) -> tuple[str, str] | None:
        if len(self._named) >= MAX_REMEMBERED_TOPICS:
            self._named.clear()
        named = self._named[topic] = self._names_in(topic)
        return named

    def _names_in(self, topic: str) -> tuple[str, str] | None:
        subscription = self._subscription
        found = match_topic(subscription.topic, topic)
        if found is None:
            return None
        sensor = found.get("sensor") or subscription.sensor or self._default_sensor
        return sensor, found.get("quantity") or subscription.quantity


def _single_quantity(subscription: Subscription) -> Quantity:
    """What a payload that is no document is."""
    kind: Literal["number", "boolean", "text"] = "number"
    if subscription.format in ("boolean", "text"):
        kind = subscription.format
    return Quantity(unit=subscription.unit, kind=kind, scale=subscription.scale, offset=subscription.offset)
