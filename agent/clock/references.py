"""References that strictly increase in every chain, across restarts and whatever the clock does.

Two things hold the last reference across a restart. The journal has the last reference of its records, exactly. If it
holds no record any more, there is the ceiling: a time that no issued timestamp exceeds. It is a little ahead, so that
it is written once in two minutes and not with every message. After a clean stop it is exact; after a crash, references
continue at most `RESERVE_MS` ahead of the last one.

A clock that was ahead for a moment would hold all references there until that time comes, and nodes refuse messages
that are more than five minutes ahead. So there is a way back: if references are further ahead of the clock than nodes
accept, and the clock can be trusted, all chains end and new ones begin at the present time (`return_to`). The clock is
trusted while it is synchronised, or if a destination has refused such a reference as being in the future: then two
clocks agree. The ceiling is lowered when the report of it is committed; the next process detects such an excursion by
a ceiling below the journal's last references.
"""

from operator import itemgetter

from agent.clock.ceiling import NOTHING, CeilingFile
from agent.clock.system import ClockReading
from agent.errors import StorageError
from protocol.clock import MAX_NAMED_CHAINS, ExcursionNotice
from protocol.reference import MAX_SEQUENCE, Reference, next_reference

RESERVE_MS = 120_000
MAX_AHEAD_MS = 300_000  # what nodes accept
EARLIEST_MS = 946_684_800_000  # 2000: a clock that shows less was never set


class ChainReferences:
    """Issues the next reference of any chain, in the order of the calls."""

    def __init__(self, ceiling: CeilingFile, journal_last: Reference | None) -> None:
        """`journal_last`: the latest reference in the journal; None if it is empty or its end is damaged."""
        self._ceiling = ceiling
        self._journal_last = journal_last
        self._floor = None if ceiling.ceiling_ms == NOTHING else Reference(ceiling.ceiling_ms, MAX_SEQUENCE)
        self._last: dict[str, Reference] = {}
        self._highest_ms = NOTHING
        self._is_ceiling_too_high = False
        self._present: Reference | None = None  # where chains begin since the return from an excursion
        self._refused_ms = NOTHING  # the last timestamp that a destination refused as being in the future

    def next(self, chain: str, now_ms: int) -> Reference:
        """Raises: StorageError if the ceiling had to be raised and could not be; then no reference was issued."""
        last = self._last.get(chain) or self._beginning()
        reference = next_reference(last, now_ms)
        if reference.timestamp_ms > self._ceiling.ceiling_ms:
            self._raise_ceiling(reference.timestamp_ms)
        self._last[chain] = reference
        self._highest_ms = max(self._highest_ms, reference.timestamp_ms)
        return reference

    def note_future(self, timestamp_ms: int) -> None:
        """Note that a destination refused this timestamp as being in the future. For any thread."""
        self._refused_ms = timestamp_ms

    def is_lost_in_future(self, chain: str, clock: ClockReading) -> bool:
        """Whether the chain is further ahead of a trusted clock than nodes accept."""
        held = self._last.get(chain) or self._beginning()
        if held is None or clock.now_ms < EARLIEST_MS or held.timestamp_ms <= clock.now_ms + MAX_AHEAD_MS:
            return False
        return clock.is_synchronised or clock.now_ms + MAX_AHEAD_MS < self._refused_ms <= held.timestamp_ms

    def return_to(self, now_ms: int) -> ExcursionNotice:
        """End all chains; new ones begin at the present time. Returns the notice that reports it."""
        last = max(self._last.values(), default=None) or self._beginning()
        assert last is not None
        named = sorted(self._last.items(), key=itemgetter(1), reverse=True)[:MAX_NAMED_CHAINS]
        notice = ExcursionNotice(now_ms=now_ms, last=last, count=len(self._last), chains=tuple(named))
        self._last.clear()
        self._present, self._floor = Reference(now_ms, 0), None
        self._highest_ms = now_ms
        self._is_ceiling_too_high = True
        return notice

    def drop(self, chain: str) -> None:
        """The chain has ended: release its memory."""
        self._last.pop(chain, None)

    def reserve(self, now_ms: int) -> None:
        """Raise the ceiling ahead of time, from a thread that may wait for the disk, so that `next` need not."""
        now_ms = next_reference(None, now_ms).timestamp_ms  # within the valid range
        if self._ceiling.is_doubtful:
            self._write(self._ceiling.ceiling_ms)
        if self._is_ceiling_too_high:
            self._raise_ceiling(max(now_ms, self._highest_ms))
            self._is_ceiling_too_high = False
        if now_ms + RESERVE_MS // 2 > self._ceiling.ceiling_ms:
            self._raise_ceiling(now_ms)

    def close(self) -> None:
        """Lower the ceiling to the last timestamp."""
        try:
            if self._highest_ms != NOTHING:
                self._write(max(self._highest_ms, self._floor.timestamp_ms if self._floor else NOTHING))
        finally:
            self._ceiling.close()

    def _beginning(self) -> Reference | None:
        """The reference after which a new chain begins."""
        if self._present is not None:
            return self._present
        known = self._journal_last
        if known is None or (self._floor is not None and known > self._floor):  # the journal's is of an excursion
            return self._floor
        return known

    def _raise_ceiling(self, above_ms: int) -> None:
        self._write(above_ms + RESERVE_MS)

    def _write(self, ceiling_ms: int) -> None:
        try:
            self._ceiling.write(ceiling_ms)
        except OSError as error:
            raise StorageError(f"cannot write the clock ceiling: {error.strerror or error}") from error
