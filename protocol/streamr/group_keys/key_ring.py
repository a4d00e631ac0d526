"""The group keys of one publisher's stream."""

import bisect
from typing import Final, NamedTuple

from protocol.streamr.checks import MAX_READABLE_INTEGER
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageRef

__all__ = ["HeldKey", "KeyConflictError", "KeyRing", "ref_after"]

MAX_KEYS_PER_RING: Final = 1_000


class KeyConflictError(ValueError):
    """Another key has this name or, where keys have none, this very start. The one that was first stays."""


class HeldKey(NamedTuple):
    """A key and the first message it is for."""

    start: MessageRef
    key: GroupKey


class KeyRing:
    """Keys by name (version 32) and by the place in the chain from which each holds (version 31).

    The newest `max_keys` stay.
    """

    def __init__(self, max_keys: int = MAX_KEYS_PER_RING) -> None:
        self._max_keys = max_keys
        self._held: list[HeldKey] = []  # ordered by start
        self._by_id: dict[str, GroupKey] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: GroupKey, start: MessageRef) -> bool:
        """Whether the key is new. The same key again changes nothing. Raises: `KeyConflictError`."""
        if self._is_known(key, start):
            return False
        bisect.insort(self._held, HeldKey(start, key), key=_start)
        if key.group_key_id:
            self._by_id[key.group_key_id] = key
        if len(self._held) > self._max_keys:
            oldest = self._held.pop(0)
            self._by_id.pop(oldest.key.group_key_id, None)
        return True

    def add_newest(self, key: GroupKey, start: MessageRef) -> MessageRef:
        """Add a key that follows all others, even if the clock has stepped back. Gives the start it has now.

        Raises: `KeyConflictError`, also where the ring has this very key: what was used before is not new.
        """
        self.check_new(key)
        if self._held:
            start = max(start, ref_after(self._held[-1].start))
        self.add(key, start)
        return start

    def check_new(self, key: GroupKey) -> None:
        """Raises: `KeyConflictError` where a key has this name, even the very same key."""
        if self.named(key.group_key_id) is not None:
            raise KeyConflictError(f"there is a group key named {key.group_key_id!r} already")

    def named(self, group_key_id: str) -> GroupKey | None:
        return self._by_id.get(group_key_id)

    def newest(self, count: int) -> list[HeldKey]:
        return self._held[-count:]

    def holding_at(self, ref: MessageRef) -> GroupKey | None:
        """The key for the message at this place of its chain."""
        following = bisect.bisect_right(self._held, ref, key=_start)
        return self._held[following - 1].key if following else None

    def holding_between(self, start_ms: int, end_ms: int) -> list[HeldKey]:
        """Every key that was in force at some moment from `start_ms` to `end_ms`."""
        first = bisect.bisect_right(self._held, start_ms, key=_start_ms) - 1
        last = bisect.bisect_right(self._held, end_ms, key=_start_ms)
        return self._held[max(first, 0) : last]

    def _is_known(self, key: GroupKey, start: MessageRef) -> bool:
        known = self.named(key.group_key_id) if key.group_key_id else self._starting_at(start)
        if known is not None and known.key != key.key:
            name = f"named {key.group_key_id!r}" if key.group_key_id else f"that holds from {start.timestamp} on"
            raise KeyConflictError(f"there is another group key {name}")
        return known is not None

    def _starting_at(self, start: MessageRef) -> GroupKey | None:
        place = bisect.bisect_left(self._held, start, key=_start)
        found = self._held[place : place + 1]
        return found[0].key if found and found[0].start == start else None


def ref_after(ref: MessageRef) -> MessageRef:
    """The first place in a chain behind this one."""
    return MessageRef(ref.timestamp, min(ref.sequence_number + 1, MAX_READABLE_INTEGER))


def _start(held: HeldKey) -> MessageRef:
    return held.start


def _start_ms(held: HeldKey) -> int:
    return held.start.timestamp
