"""What devices said of themselves, so that they need not be asked twice. Pure."""

from collections import OrderedDict
from typing import Final, TypeAlias

from protocol.link import CommandDescription, Hello, SensorDescription, schema_of

__all__ = ["Description", "Descriptions", "SelfPortrait"]

MAX_REMEMBERED: Final = 16

Description: TypeAlias = SensorDescription | CommandDescription


class SelfPortrait:
    """The descriptions of one firmware on one device, as they come in."""

    def __init__(self, hello: Hello) -> None:
        self._wanted = hello.sensors + hello.commands
        self._schema = hello.schema
        self._found: list[Description] = []

    @property
    def next_index(self) -> int | None:
        """Which to ask for; None if all are there."""
        return len(self._found) if len(self._found) < self._wanted else None

    @property
    def is_whole(self) -> bool:
        return self.next_index is None and schema_of(self._found) == self._schema

    @property
    def contradicts_hello(self) -> bool:
        return self.next_index is None and not self.is_whole

    def add(self, description: Description) -> bool:
        """Whether it is the one that was asked for."""
        is_next = description.index == self.next_index
        if is_next:
            self._found.append(description)
        return is_next

    def begin_again(self) -> None:
        """Where they contradict HELLO, all of them are in doubt."""
        self._found.clear()

    @property
    def sensors(self) -> dict[int, SensorDescription]:
        return {each.index: each for each in self._found if isinstance(each, SensorDescription)}

    @property
    def commands(self) -> dict[str, CommandDescription]:
        return {each.name: each for each in self._found if isinstance(each, CommandDescription)}


class Descriptions:
    """Portraits by device, firmware and schema."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, int], SelfPortrait] = OrderedDict()

    def of(self, hello: Hello) -> SelfPortrait:
        """The portrait, whole if this firmware was met before."""
        name = (hello.device_id, hello.firmware, hello.schema)
        portrait = self._known.get(name)
        if portrait is None or not portrait.is_whole:
            portrait = self._known[name] = SelfPortrait(hello)
        self._known.move_to_end(name)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return portrait
