"""The group keys of one publisher's stream."""

import bisect
from typing import Final, NamedTuple

from protocol.streamr.checks import MAX_READABLE_INTEGER
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageRef

MAX_KEYS_PER_RING: Final = 1_000


class KeyConflictError(ValueError):
    """Another key has this name or, if keys have no names, this start. The earlier key stays."""


class HeldKey(NamedTuple):
    """A key and the first message that it encrypts."""

    start: MessageRef
    key: GroupKey


class KeyRing:
    """Keys by name (version 32) and by the reference from which each is valid (version 31); the newest `max_keys`."""

    def __init__(self, max_keys: int = MAX_KEYS_PER_RING) -> None:
        self._max_keys = max_keys
        self._held: list[HeldKey] = []  # ordered by start
        self._by_id: dict[str, GroupKey] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: GroupKey, start: MessageRef) -> bool:
        """Add a key. Returns whether it is new. Raises: `KeyConflictError`."""
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
        """Add a key after all others, even if the clock has stepped back. Returns its start.

        Raises: `KeyConflictError`, also if the ring has this very key.
        """
        self.check_new(key)
        if self._held:
            start = max(start, ref_after(self._held[-1].start))
        self.add(key, start)
        return start

    def check_new(self, key: GroupKey) -> None:
        """Raises: `KeyConflictError` if a key has this name, even the same key."""
        if self.named(key.group_key_id) is not None:
            raise KeyConflictError(f"there is a group key named {key.group_key_id!r} already")

    def named(self, group_key_id: str) -> GroupKey | None:
        return self._by_id.get(group_key_id)

    def newest(self, count: int) -> list[HeldKey]:
        return self._held[-count:]

    def holding_at(self, ref: MessageRef) -> GroupKey | None:
        """The key for the message with this reference."""
        following = bisect.bisect_right(self._held, ref, key=_start)
        return self._held[following - 1].key if following else None

    def holding_between(self, start_ms: int, end_ms: int) -> list[HeldKey]:
        """Every key that was valid at some time from `start_ms` to `end_ms`."""
        first = bisect.bisect_right(self._held, start_ms, key=_start_ms) - 1
        last = bisect.bisect_right(self._held, end_ms, key=_start_ms)
        return self._held[max(first, 0) : last]

    def _is_known(self, key: GroupKey, start: MessageRef) -> bool:
        known = self.named(key.group_key_id) if key.group_key_id else self._starting_at(start)
        if known is not None and known.key != key.key:
            name = f"named {key.group_key_id!r}" if key.group_key_id else f"that is valid from {start.timestamp} on"
            raise KeyConflictError(f"there is another group key {name}")
        return known is not None

    def _starting_at(self, start: MessageRef) -> GroupKey | None:
        index = bisect.bisect_left(self._held, start, key=_start)
        found = self._held[index : index + 1]
        return found[0].key if found and found[0].start == start else None


def ref_after(ref: MessageRef) -> MessageRef:
    """The first reference after this one."""
    return MessageRef(ref.timestamp, min(ref.sequence_number + 1, MAX_READABLE_INTEGER))


def _start(held: HeldKey) -> MessageRef:
    return held.start


def _start_ms(held: HeldKey) -> int:
    return held.start.timestamp
