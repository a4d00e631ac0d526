"""Routing: finds the stream of a reading by the operator's rules; the first match counts.

A stream id may hold `{address}`, `{device}`, `{driver}`, `{sensor}` and `{quantity}`, so that one rule can serve many
sensors. Readings that share stream, partition, priority and label share a chain, which preserves their order. A label
of its own gives a rule its own chain on the same stream, so that live data can overtake a backlog.

`StreamReaders` maps a stream's id back to the addresses that may read it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from string import Formatter
from typing import Annotated, Final, Literal, NamedTuple

from agent.journal.records import MAX_LANES
from drivers.errors import ConfigError
from protocol.iomessage.content import MAX_PACK_READINGS
from runtime.settings import Between, Matching, Seconds, Text, placeholder_problem

ContentForm = Literal["binary", "json"]
Encryption = Literal["none", "aes"]
Address = Annotated[str, Matching("0x[0-9a-fA-F]{40}", "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b")]
DEVICE_PLACEHOLDERS: Final = ("address", "device")
PLACEHOLDERS: Final = (*DEVICE_PLACEHOLDERS, "driver", "sensor", "quantity")
SOME_ADDRESS: Final = "0x" + 40 * "0"
PackSize = Annotated[int, Between(1, MAX_PACK_READINGS)]
DEFAULT_MAX_READINGS: Final = 250  # per message: more gains little, and a loss or a resend costs a whole message
MAX_STREAM_ID_BYTES: Final = 200  # leaves room for partition and chain in the journal's name of a chain
MAX_ROUTES: Final = 16_384  # cached at a time; a source with ever new sensor names costs time, not memory


def expand_stream_id(template: str, names: Mapping[str, str]) -> str:
    """Raises ValueError if the id is too long, or a name in it is not printable."""
    stream_id = template.format_map(names)
    if len(stream_id.encode()) > MAX_STREAM_ID_BYTES:
        raise ValueError(f"stream id {stream_id[:60]!r}… is longer than {MAX_STREAM_ID_BYTES} bytes")
    if not stream_id.isprintable():
        raise ValueError(f"stream id {stream_id!r} is not printable text")
    return stream_id


def template_problem(template: str, placeholders: Sequence[str]) -> str:
    """Why the template can never be the id of a stream; "" if it can."""
    if problem := placeholder_problem(template, placeholders):
        return problem
    try:
        expand_stream_id(template, {**dict.fromkeys(placeholders, "x"), "address": SOME_ADDRESS})
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRule:
    """One `[[streams]]` table. A pattern that is not given matches everything."""

    stream: Text  # id of the stream, with placeholders
    driver: Text = "*"  # wildcard pattern of `[drivers.NAME]` names
    sensor: Text = "*"  # pattern of sensor names
    quantity: Text = "*"  # pattern of quantities
    partition: Annotated[int, Between(0, 99)] = 0  # partition of the stream
    content: ContentForm = "binary"  # `{"ioMessage": base64}`, or the ioMessage's own JSON
    max_readings_per_message: PackSize = DEFAULT_MAX_READINGS  # most readings in one signed message; 1: no packs
    priority: Annotated[int, Between(0, MAX_LANES - 1)] = 4  # lower is more important: sent first, shed last
    chain: str = ""  # chain label; rules with different labels use different chains of the same stream
    encryption: Encryption = (
        "none"  # aes: only readers can decrypt; `stream` may then use only `{address}` and `{device}`
    )
    readers: tuple[
        Address, ...
    ] = ()  # addresses that may subscribe on a node, and that get the keys of an encrypted stream
    rotate_after_messages: Annotated[int, Between(1, 2**31)] | None = None  # rotate the key after this many messages
    rotate_after_s: Seconds = 86_400.0  # rotate the key at this age

    def __post_init__(self) -> None:
        is_encrypted = self.encryption != "none"
        known = (
            DEVICE_PLACEHOLDERS if is_encrypted else PLACEHOLDERS
        )  # keys belong to a stream that is known beforehand
        if problem := template_problem(self.stream, known):
            raise ConfigError(f"stream: {problem}")

    def matches(self, driver: str, sensor: str, quantity: str) -> bool:
        return (
            fnmatchcase(driver, self.driver)
            and fnmatchcase(sensor, self.sensor)
            and fnmatchcase(quantity, self.quantity)
        )


DEFAULT_RULE: Final = StreamRule(stream="{address}/{device}/{driver}")


class Route(NamedTuple):
    """The destination of a reading. Equal routes share one chain."""

    stream_id: str
    partition: int
    content: ContentForm
    priority: int
    label: str
    encryption: Encryption
    max_readings: int = DEFAULT_MAX_READINGS  # in a message


@dataclass(slots=True)
class Router:
    """Finds routes, and caches them, because each sensor repeats with every reading."""

    rules: Sequence[StreamRule]
    device_names: Mapping[str, str]  # of address and device
    _found: dict[tuple[str, str, str], Route | None] = field(default_factory=dict)

    def route(self, driver: str, sensor: str, quantity: str) -> Route | None:
        """None where no rule matches. Raises ValueError if the rule makes no valid stream id of these names."""
        key = (driver, sensor, quantity)
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MAX_ROUTES:
                self._found.clear()
            route = self._found[key] = self._find(driver, sensor, quantity)
            return route

    def _find(self, driver: str, sensor: str, quantity: str) -> Route | None:
        rule = next((rule for rule in self.rules if rule.matches(driver, sensor, quantity)), None)
        if rule is None:
            return None
        names = {**self.device_names, "driver": driver, "sensor": sensor, "quantity": quantity}
        return Route(
            expand_stream_id(rule.stream, names),
            rule.partition,
            rule.content,
            rule.priority,
            rule.chain,
            rule.encryption,
            rule.max_readings_per_message,
        )


class _Pattern(NamedTuple):
    stream_id: re.Pattern[str]
    readers: frozenset[str]


class StreamReaders:
    def __init__(self, rules: Sequence[StreamRule], device_names: Mapping[str, str], *, others: Sequence[str]) -> None:
        """`others` are templates of streams that have no readers."""
        self._patterns = [
            _Pattern(_pattern(rule.stream, device_names), frozenset(reader.lower() for reader in rule.readers))
            for rule in rules
        ]
        self._patterns += [_Pattern(_pattern(template, device_names), frozenset()) for template in others]

    def of(self, stream_id: str) -> frozenset[str]:
        """Addresses in lower case."""
        found = [pattern.readers for pattern in self._patterns if pattern.stream_id.fullmatch(stream_id)]
        return frozenset.intersection(*found) if found else frozenset()


def _pattern(template: str, device_names: Mapping[str, str]) -> re.Pattern[str]:
    parts = []
    for literal, name, _, _ in Formatter().parse(template):
        parts.append(re.escape(literal))
        if name is not None:
            parts.append(re.escape(device_names[name]) if name in device_names else ".+")
    return re.compile("".join(parts))
