"""References that strictly increase in every chain, across restarts and whatever the clock does.

Two things remember across a restart. The journal knows the last reference of every chain it still holds, exactly. For
a chain it holds nothing of any more there is the ceiling: a time that no timestamp given out has passed, kept a
little ahead so that it is written once in two minutes and not with every message. After a clean stop it is exact;
after a crash such a chain goes on at most `RESERVE_MS` ahead of where it was.
"""

from typing import Protocol

from agent.clock.ceiling import NOTHING, CeilingFile
from agent.errors import StorageError
from protocol.reference import MAX_SEQUENCE, Reference, next_reference

RESERVE_MS = 120_000


class LastReferences(Protocol):
    """What the journal tells: (timestamp_ms, sequence) of the last record it holds of a chain, None if it holds none,
    or is not sure because its end was damaged.
    """

    def last_reference(self, chain: str) -> tuple[int, int] | None: ...


class ChainReferences:
    """Gives out the next reference of any chain. A message's turn in its chain is the order in which it asks."""

    def __init__(self, ceiling: CeilingFile, journal: LastReferences) -> None:
        self._ceiling = ceiling
        self._journal = journal
        self._forgotten = None if ceiling.ceiling_ms == NOTHING else Reference(ceiling.ceiling_ms, MAX_SEQUENCE)
        self._last: dict[str, Reference] = {}
        self._highest_ms = NOTHING

    def next(self, chain: str, now_ms: int) -> Reference:
        """Raises: StorageError if the ceiling had to be raised and could not be; then nothing was given out."""
        last = self._last.get(chain) or self._recall(chain)
        reference = next_reference(last, now_ms)
        if reference.timestamp_ms > self._ceiling.ceiling_ms:
            self._raise_ceiling(reference.timestamp_ms)
        self._last[chain] = reference
        self._highest_ms = max(self._highest_ms, reference.timestamp_ms)
        return reference

    def forget(self, chain: str) -> None:
        """Nothing more will be asked for it."""
        self._last.pop(chain, None)

    def reserve(self, now_ms: int) -> None:
        """Raise the ceiling in good time, from a place that may wait for the disk, so that `next` need not."""
        now_ms = next_reference(None, now_ms).timestamp_ms  # within what a clock may say
        if now_ms + RESERVE_MS // 2 > self._ceiling.ceiling_ms:
            self._raise_ceiling(now_ms)

    def close(self) -> None:
        """After this the ceiling is exact: nothing above the last timestamp is reserved any more."""
        try:
            if self._highest_ms != NOTHING:
                self._write(max(self._highest_ms, self._forgotten.timestamp_ms if self._forgotten else NOTHING))
        finally:
            self._ceiling.close()

    def _recall(self, chain: str) -> Reference | None:
        known = self._journal.last_reference(chain)
        return self._forgotten if known is None else Reference(*known)

    def _raise_ceiling(self, above_ms: int) -> None:
        self._write(above_ms + RESERVE_MS)

    def _write(self, ceiling_ms: int) -> None:
        try:
            self._ceiling.write(ceiling_ms)
        except OSError as error:
            raise StorageError(f"the clock's ceiling cannot be kept: {error.strerror or error}") from error
