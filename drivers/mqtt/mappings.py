"""Maps a topic and a payload to readings, as configured, or by a preset for well-known firmware. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeGuard

import orjson

from drivers.contract import MAX_READINGS_PER_READ
from drivers.errors import ConfigError
from drivers.mapping import MAX_FIELDS, PayloadReader, Quantities, Quantity, Reject, fields_of_json, reader_of, shown
from drivers.reading import Reading, Scalar
from drivers.rejects import reason_of
from runtime.settings import Text

MAX_TOPIC_LEVELS: Final = 32
PLACEHOLDERS: Final = ("{sensor}", "{quantity}")


class Sample(NamedTuple):
    sensor: str
    quantity: str
    value: Scalar | bytes
    unit: str = ""
    mime_type: str = ""


class NotRead(NamedTuple):
    """A field that should be a number, and is not."""

    sensor: str
    quantity: str


# Of one topic. Takes what a `PayloadReader` does; None if the payload is not for this mapping.
TopicReader = Callable[[bytes, int, int | None], list[Reading] | None]


class Mapping(Protocol):
    @property
    def filters(self) -> tuple[str, ...]:
        """Topic filters to subscribe to."""

    def reader(self, topic: str) -> TopicReader | None:
        """The reader of a topic's payloads; None if the topic does not match."""


class Firmware(Protocol):
    """The topics and payloads of a well-known firmware."""

    @property
    def filters(self) -> tuple[str, ...]: ...

    def read(self, topic: str, payload: bytes) -> Sequence[Sample | NotRead] | None:
        """The samples of a message; None if it is not of this firmware. Raises ValueError if it is malformed."""


class FirmwareMapping:
    def __init__(self, firmware: Firmware, reject: Reject) -> None:
        self.filters = firmware.filters
        self._firmware = firmware
        self._reject = reject

    def reader(self, topic: str) -> TopicReader:
        def read(payload: bytes, taken_at_ms: int, token: int | None) -> list[Reading] | None:
            samples = self._firmware.read(topic, payload)
            if samples is None:
                return None
            if len(samples) > MAX_READINGS_PER_READ:  # they are committed together
                raise ValueError(f"{len(samples)} readings in one message; the limit is {MAX_READINGS_PER_READ}")
            readings: list[Reading] = []
            for sample in samples:
                if isinstance(sample, NotRead):
                    self._reject(sample.sensor, f"{sample.quantity} is not a number", payload, taken_at_ms)
                    continue
                sensor, quantity, value, unit, mime_type = sample
                try:
                    readings.append(
                        Reading(
                            sensor, quantity, value, unit, taken_at_ms=taken_at_ms, mime_type=mime_type, token=token
                        )
                    )
                except ValueError as problem:  # a name too long, a number that is not finite
                    self._reject(topic, reason_of(problem), payload, taken_at_ms)
            return readings

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
    decimal_comma: bool = False  # numbers are written 19,4 or 1.234,5 (json: see each quantity)
    quantities: Quantities = field(default_factory=dict)  # json
    mime_type: Text = "application/octet-stream"  # raw

    def __post_init__(self) -> None:
        problems = _topic_problems(self.topic)
        if self.format == "json" and not self.quantities:
            problems.append("quantities: missing; expected a table of what to read")
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
        return ["topic: only {sensor} and {quantity} are allowed in braces, each as a whole level"]
    return []


def plain_filter(topic: str) -> str:
    return "/".join("+" if level in PLACEHOLDERS else level for level in topic.split("/"))


def without_covered(filters: Sequence[str]) -> list[str]:
    """Those that no other one covers. A broker may deliver a message once for each filter that matches its topic."""
    different = list(dict.fromkeys(filters))
    return [each for each in different if not any(_covers(other, each) for other in different if other != each)]


def _covers(wide: str, narrow: str) -> bool:
    """Whether every topic that the narrow filter matches is matched by the wide one."""
    levels, inner = wide.split("/"), narrow.split("/")
    if inner[0].startswith("$") and levels[0] in ("+", "#"):  # wildcards do not match the broker's own topics
        return False
    if levels[-1] == "#":
        levels.pop()
        if len(inner) < len(levels):
            return False
        inner = inner[: len(levels)]
    return len(levels) == len(inner) and all(
        level == other or (level == "+" and other != "#") for level, other in zip(levels, inner, strict=True)
    )


def match_topic(pattern: str, topic: str) -> dict[str, str] | None:
    """The values of the placeholders; None if the topic does not match."""
    expected, given = pattern.split("/"), topic.split("/", MAX_TOPIC_LEVELS)
    if expected[-1] == "#":
        expected.pop()
        given = given[: len(expected)]
    if len(expected) != len(given):
        return None
    found: dict[str, str] = {}
    for level, text in zip(expected, given, strict=True):
        if level in PLACEHOLDERS:
            found[level.strip("{}")] = text
        elif level not in ("+", text):
            return None
    return found


class SubscriptionMapping:
    """A subscription of the settings."""

    def __init__(self, default_sensor: str, subscription: Subscription, reject: Reject) -> None:
        self._reject = reject
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
            return reader_of(sensor, subscription.quantities, fields_of_json, self._reject)
        single = {quantity: _single_quantity(subscription)}
        return reader_of(sensor, single, lambda payload: {quantity: payload.decode().strip()}, self._reject)


def _raw_reader(sensor: str, quantity: str, mime_type: str) -> PayloadReader:
    return lambda payload, taken_at_ms, token: [
        Reading(sensor, quantity, payload, taken_at_ms=taken_at_ms, mime_type=mime_type, token=token)
    ]


def _single_quantity(subscription: Subscription) -> Quantity:
    """The quantity of a payload that is a single value."""
    kind: Literal["number", "boolean", "text"] = "number"
    if subscription.format in ("boolean", "text"):
        kind = subscription.format
    return Quantity(
        unit=subscription.unit,
        kind=kind,
        scale=subscription.scale,
        offset=subscription.offset,
        decimal_comma=subscription.decimal_comma,
    )


def json_object(payload: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    document = orjson.loads(payload)
    if not isinstance(document, dict) or len(document) > MAX_FIELDS:
        raise ValueError(f"not a JSON object of at most {MAX_FIELDS} members")
    return document


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_online(payload: bytes) -> bool:
    """Whether the payload is "online" or "offline". Raises ValueError for others."""
    word = payload.decode().strip().lower()
    if word not in ("online", "offline"):
        raise ValueError(f"{shown(word)} is neither online nor offline")
    return word == "online"
