"""Cache of the sensors and commands that devices described, so that they are requested once per firmware. Pure."""

from collections import OrderedDict
from typing import Final, TypeAlias

from protocol.link import CommandDescription, Hello, SensorDescription, schema_of

MAX_CACHED: Final = 16

Description: TypeAlias = SensorDescription | CommandDescription


class DeviceDescription:
    """The descriptions of one firmware on one device, as they are received."""

    def __init__(self, hello: Hello) -> None:
        self._expected = hello.sensors + hello.commands
        self._schema = hello.schema
        self._found: list[Description] = []

    @property
    def next_index(self) -> int | None:
        """The index to request next; None if all are received."""
        return len(self._found) if len(self._found) < self._expected else None

    @property
    def is_complete(self) -> bool:
        return self.next_index is None and schema_of(self._found) == self._schema

    @property
    def contradicts_hello(self) -> bool:
        return self.next_index is None and not self.is_complete

    def add(self, description: Description) -> bool:
        """Add a description. Returns whether it is the one that was requested."""
        is_next = description.index == self.next_index
        if is_next:
            self._found.append(description)
        return is_next

    def begin_again(self) -> None:
        """Discard all descriptions, because they contradict HELLO."""
        self._found.clear()

    @property
    def sensors(self) -> dict[int, SensorDescription]:
        return {each.index: each for each in self._found if isinstance(each, SensorDescription)}

    @property
    def commands(self) -> dict[str, CommandDescription]:
        return {each.name: each for each in self._found if isinstance(each, CommandDescription)}


class Descriptions:
    """Descriptions by device, firmware and schema."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, int], DeviceDescription] = OrderedDict()

    def of(self, hello: Hello) -> DeviceDescription:
        """The description; complete if this firmware is known."""
        name = (hello.device_id, hello.firmware, hello.schema)
        known = self._known.get(name)
        if known is None or not known.is_complete:
            known = self._known[name] = DeviceDescription(hello)
        self._known.move_to_end(name)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return known
