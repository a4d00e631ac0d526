"""The group keys that messages handed over, kept for the archives that come behind them, and those that wait for them.

`_headgate/group-keys.json`, readable by its owner alone: `{"<device>": [["<stream id>", "<key id>", "<hex>"], …]}`. It
only grows, so it needs no commit: a key that is kept before its archive is in the tables harms nobody.
"""

from collections.abc import Iterable
from typing import Final

import orjson

from ingest.keyring import GroupKeys, LearnedKeys
from ingest.store import Store
from ingest.summary import ArchiveSummary, Locked
from protocol.streamr.group_keys.group_key import GroupKey

MAX_KEYS_PER_DEVICE: Final = 10_000  # the oldest are forgotten


class HandedOver:
    def __init__(self, store: Store) -> None:
        self._store = store
        found = orjson.loads(store.read_secrets() or b"{}")
        self.keys: LearnedKeys = {
            device: {(stream, name): GroupKey(name, bytes.fromhex(digits)) for stream, name, digits in rows}
            for device, rows in found.items()
        }

    def add(self, summaries: Iterable[ArchiveSummary]) -> None:
        """Keep what these archives handed over. Durable when this returns."""
        is_new = False
        for summary in summaries:
            known = self.keys.setdefault(summary.device or "", {})
            for stream, name, digits in summary.handed_over:
                is_new |= (stream, name) not in known
                known.setdefault((stream, name), GroupKey(name, bytes.fromhex(digits)))
            while len(known) > MAX_KEYS_PER_DEVICE:
                del known[next(iter(known))]
        if is_new:
            self._store.write_secrets(orjson.dumps({device: _rows(keys) for device, keys in self.keys.items()}))

    def opens(self, device: str, locked: Locked, given: GroupKeys) -> bool:
        """Whether a key is known by now that was missing."""
        known = self.keys.get(device, {})
        return any((stream, name) in known or name in given.get(stream, {}) for stream, name in locked.keys)

    def __repr__(self) -> str:
        return f"HandedOver({sum(map(len, self.keys.values()))} keys of {len(self.keys)} devices)"


def _rows(keys: dict[tuple[str, str], GroupKey]) -> list[tuple[str, str, str]]:
    return [(stream, name, key.key.hex()) for (stream, name), key in keys.items()]
