"""Which stream a reading goes to: the operator's rules, first match first.

A stream id may hold `{address}`, `{device}`, `{driver}`, `{sensor}` and `{quantity}`, so that one rule can serve many
sensors. Readings that share stream, partition, priority and label share a chain: their order is kept for ever. A label
of its own gives a rule its own chain on the same stream, which live data needs to overtake a backlog.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, NamedTuple

from agent.journal.records import MAX_LANES
from drivers.errors import ConfigError
from drivers.settings import Between, Matching, Seconds, Text

__all__ = [
    "DEFAULT_RULE",
    "DEVICE_PLACEHOLDERS",
    "ContentForm",
    "Encryption",
    "Route",
    "Router",
    "StreamRule",
    "complain_about_template",
    "expand_stream_id",
]

ContentForm = Literal["binary", "json"]
Encryption = Literal["none", "aes"]
Address = Annotated[str, Matching("0x[0-9a-fA-F]{40}", "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b")]

DEVICE_PLACEHOLDERS: Final = ("address", "device")
PLACEHOLDERS: Final = (*DEVICE_PLACEHOLDERS, "driver", "sensor", "quantity")
SOME_ADDRESS: Final = "0x" + 40 * "0"
MAX_STREAM_ID_BYTES: Final = 200  # leaves room for partition and chain in the journal's name of a chain
MAX_ROUTES: Final = 16_384  # remembered at a time; a source that invents sensor names costs time, not memory


def expand_stream_id(template: str, names: Mapping[str, str]) -> str:
    """Raises ValueError if the id is too long, or a name in it is no text that everybody can show."""
    stream_id = template.format_map(names)
    if len(stream_id.encode()) > MAX_STREAM_ID_BYTES:
        raise ValueError(f"stream id {stream_id[:60]!r}… is longer than {MAX_STREAM_ID_BYTES} bytes")
    if not stream_id.isprintable():
        raise ValueError(f"stream id {stream_id!r} is not printable text")
    return stream_id


def complain_about_template(template: str, placeholders: Sequence[str]) -> str:
    """What keeps it from ever being the id of a stream; "" if nothing does."""
    try:
        expand_stream_id(template, {**dict.fromkeys(placeholders, "x"), "address": SOME_ADDRESS})
    except (KeyError, IndexError, AttributeError):
        return f"a placeholder is wrong; there are {', '.join(f'{{{name}}}' for name in placeholders)}"
    except ValueError as error:  # of the format, or of what it makes
        return str(error) if "stream id" in str(error) else f"a placeholder is wrong: {error}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRule:
    """One `[[streams]]` table. What it does not name it takes all of."""

    stream: Text  # the stream's id, placeholders allowed
    driver: Text = "*"  # pattern, as for file names: which `[drivers.NAME]`
    sensor: Text = "*"  # pattern: which of its sensors
    quantity: Text = "*"  # pattern: which quantities
    partition: Annotated[int, Between(0, 99)] = 0  # of the stream
    content: ContentForm = "binary"  # `{"ioMessage": base64}`, or the ioMessage's own JSON
    priority: Annotated[int, Between(0, MAX_LANES - 1)] = 4  # lower is more important: sent first, shed last
    chain: str = ""  # a label; rules with another label have another chain on the same stream
    encryption: Encryption = "none"  # aes: for readers only; then `stream` has only `{address}` and `{device}`
    readers: tuple[Address, ...] = ()  # of an encrypted stream: who gets its keys
    rotate_after_messages: Annotated[int, Between(1, 2**31)] | None = None  # then its key changes
    rotate_after_s: Seconds = 86_400.0  # or by age

    def __post_init__(self) -> None:
        is_encrypted = self.encryption != "none"
        known = (
            DEVICE_PLACEHOLDERS if is_encrypted else PLACEHOLDERS
        )  # keys belong to a stream that is known beforehand
        if problem := complain_about_template(self.stream, known):
            raise ConfigError(f"stream: {problem}")
        if self.readers and not is_encrypted:
            raise ConfigError('readers: only an encrypted stream has readers; set encryption = "aes"')

    def matches(self, driver: str, sensor: str, quantity: str) -> bool:
        return (
            fnmatchcase(driver, self.driver)
            and fnmatchcase(sensor, self.sensor)
            and fnmatchcase(quantity, self.quantity)
        )


DEFAULT_RULE: Final = StreamRule(stream="{address}/{device}/{driver}")


class Route(NamedTuple):
    """Where a reading goes. Equal routes share one chain, save for the form of their contents."""

    stream_id: str
    partition: int
    content: ContentForm
    priority: int
    label: str
    encryption: Encryption


@dataclass(slots=True)
class Router:
    """Remembers what it found, since each sensor asks again with every reading."""

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
        )
