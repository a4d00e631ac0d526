"""References that strictly increase in every chain, across restarts and whatever the clock does.

Two things remember across a restart. The journal knows the last reference of every chain it still holds, exactly. For
a chain it holds nothing of any more there is the ceiling: a time that no timestamp given out has passed, kept a
little ahead so that it is written once in two minutes and not with every message. After a clean stop it is exact;
after a crash such a chain goes on at most `RESERVE_MS` ahead of where it was.

A clock that was ahead for a moment would hold all references there until that time comes, and nodes refuse what is
more than five minutes ahead. So there is a way back: where references are further ahead of the clock than nodes accept,
and the clock is known to be right, all chains end and new ones begin at the present time (`return_to`). It is known to
be right while it is synchronised, or when a destination has refused such a reference as being in the future: then two
clocks agree. The ceiling is lowered once the report of it is committed; the next process knows by a ceiling below the
journal's last references that they are of an excursion.
"""

from operator import itemgetter
from typing import Protocol

from agent.clock.ceiling import NOTHING, CeilingFile
from agent.clock.system import ClockReading
from agent.errors import StorageError
from protocol.clock import MAX_NAMED_CHAINS, ExcursionNotice
from protocol.reference import MAX_SEQUENCE, Reference, next_reference

RESERVE_MS = 120_000
MAX_AHEAD_MS = 300_000  # what nodes accept
EARLIEST_MS = 946_684_800_000  # 2000: a clock that shows less was never set


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
        self._is_ceiling_too_high = False
        self._present: Reference | None = None  # where chains begin since the return from an excursion
        self._refused_ms = NOTHING  # the last timestamp that a destination took for the future

    def next(self, chain: str, now_ms: int) -> Reference:
        """Raises: StorageError if the ceiling had to be raised and could not be; then nothing was given out."""
        last = self._last.get(chain) or self._recall(chain)
        reference = next_reference(last, now_ms)
        if reference.timestamp_ms > self._ceiling.ceiling_ms:
            self._raise_ceiling(reference.timestamp_ms)
        self._last[chain] = reference
        self._highest_ms = max(self._highest_ms, reference.timestamp_ms)
        return reference

    def note_future(self, timestamp_ms: int) -> None:
        """A destination has refused a message for its timestamp. From any thread."""
        self._refused_ms = timestamp_ms

    def is_lost_in_future(self, chain: str, clock: ClockReading) -> bool:
        """Whether the chain is held further ahead than nodes accept, of a clock that is known to be right."""
        held = self._last.get(chain) or self._recall(chain)
        if held is None or clock.now_ms < EARLIEST_MS or held.timestamp_ms <= clock.now_ms + MAX_AHEAD_MS:
            return False
        return clock.is_synchronised or clock.now_ms + MAX_AHEAD_MS < self._refused_ms <= held.timestamp_ms

    def return_to(self, now_ms: int) -> ExcursionNotice:
        """End all chains; those that follow begin at the present time. Gives what to report of it."""
        last = max(self._last.values(), default=None) or self._recall("")
        assert last is not None
        named = sorted(self._last.items(), key=itemgetter(1), reverse=True)[:MAX_NAMED_CHAINS]
        notice = ExcursionNotice(now_ms=now_ms, last=last, count=len(self._last), chains=tuple(named))
        self._last.clear()
        self._present, self._forgotten = Reference(now_ms, 0), None
        self._highest_ms = now_ms
        self._is_ceiling_too_high = True
        return notice

    def forget(self, chain: str) -> None:
        """Nothing more will be asked for it."""
        self._last.pop(chain, None)

    def reserve(self, now_ms: int) -> None:
        """Raise the ceiling in good time, from a place that may wait for the disk, so that `next` need not."""
        now_ms = next_reference(None, now_ms).timestamp_ms  # within what a clock may say
        if self._is_ceiling_too_high:
            self._raise_ceiling(max(now_ms, self._highest_ms))
            self._is_ceiling_too_high = False
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
        if self._present is not None:
            return self._present
        known = self._journal.last_reference(chain)
        if known is None or (self._forgotten is not None and known > self._forgotten):  # of an excursion
            return self._forgotten
        return Reference(*known)

    def _raise_ceiling(self, above_ms: int) -> None:
        self._write(above_ms + RESERVE_MS)

    def _write(self, ceiling_ms: int) -> None:
        try:
            self._ceiling.write(ceiling_ms)
        except OSError as error:
            raise StorageError(f"cannot write the clock ceiling: {error.strerror or error}") from error
