"""The records of one archive in order: how each goes on from the one before, and what its chains amount to.

Messages follow each other by their references, readings by the hash chain. Counts are of readings.
"""

from ingest.decoded import FIRST, FORKED, LINKED, UNLINKED, ChainLink, Decoded
from ingest.reasons import Quarantined, Reason
from ingest.spans import Span
from ingest.summary import ArchiveSummary, ChainSummary, Correction, Held
from protocol.archive.records import Record
from protocol.clock import ClockCorrection
from protocol.events import GapNotice


class Walk:
    """Give it every record that was decoded, and finish. The summary is complete then."""

    def __init__(self, summary: ArchiveSummary) -> None:
        self._summary = summary
        self._chains: dict[str, _ChainWalk] = {}
        self._boots: dict[str, None] = {}

    def take(self, record: Record, decoded: Decoded, last_place: int | None = None) -> str | Quarantined:
        """How the first reading is linked to the one before it; or why the message does not belong into this chain.

        The last reading of a run stood at `last_place` in the journal.
        """
        place = record.position + decoded.readings - 1 if last_place is None else last_place
        walk = self._chains.get(record.chain)
        if walk is None:
            walk = self._chains[record.chain] = _ChainWalk(self._chain_of(record), record, decoded, place)
        elif walk.identity != decoded.identity:
            return Quarantined(Reason.MISFILED, f"it is filed under a chain of {walk.identity}")
        else:
            walk.extend(decoded, record.position, place)
        self._boots.update(dict.fromkeys(decoded.boots))
        for event in decoded.events:
            self._note_event(event)
        return walk.link(decoded.link)

    def reject(self, record: Record) -> None:
        chain = self._chain_of(record)
        chain.rejected += record.readings
        chain.held.append(Held(record.timestamp_ms, record.sequence, record.readings))

    def _chain_of(self, record: Record) -> ChainSummary:
        """A chain that its manifest does not name is one of which it counts nothing."""
        return self._summary.chains.setdefault(record.chain, ChainSummary(archived=0))

    def finish(self) -> None:
        for walk in self._chains.values():
            walk.finish()
        self._summary.boots = list(self._boots)

    def _note_event(self, event: GapNotice | ClockCorrection) -> None:
        if isinstance(event, ClockCorrection):
            self._summary.corrections.append(Correction(event.boot_id.hex(), event.monotonic_ms, event.offset_ms))
            return
        if not event.archived:
            self._summary.losses.append((event.journal.hex(), event.loss))


class _ChainWalk:
    """One chain: a span that grows until a message names another predecessor than the last one."""

    __slots__ = (
        "_first", "_first_link", "_first_place", "_head", "_is_counted", "_last", "_last_link", "_last_place",
        "_previous", "_summary", "_valid", "identity",
    )  # fmt: skip

    def __init__(self, summary: ChainSummary, record: Record, decoded: Decoded, last_place: int) -> None:
        self.identity = decoded.identity
        self._summary = summary
        self._valid = 0
        self._head: ChainLink | None = None  # of the last reading that is linked
        summary.lane = record.lane
        self._begin(decoded, record.position, last_place)

    def _begin(self, decoded: Decoded, first_place: int, last_place: int) -> None:
        _, self._first, self._last, self._previous, link, readings, *_ = decoded
        self._valid += readings
        self._first_place, self._last_place = first_place, last_place
        self._first_link = self._last_link = link
        self._is_counted = link is not None  # whether the positions count up by one

    def extend(self, decoded: Decoded, first_place: int, last_place: int) -> None:
        _, first, last, previous, link, readings, *_ = decoded
        if previous != self._last:
            self._summary.spans.append(self._span())
            self._summary.unordered |= first <= self._last
            self._begin(decoded, first_place, last_place)
            return
        self._valid += readings
        self._last, self._last_place = last, last_place
        before = self._last_link
        if link is None or before is None or link.first != before.last + 1:
            self._is_counted = False
        self._last_link = link

    def link(self, link: ChainLink | None) -> str:
        """How its first reading goes on from the one before it in the hash chain, where that is in this archive."""
        if link is None:
            return UNLINKED
        before, self._head = self._head, link
        if before is None or link.first != before.last + 1:
            return FIRST
        if link.previous_hash == before.hash:
            return LINKED
        self._summary.forked += 1
        return FORKED

    def finish(self) -> None:
        self._summary.spans.append(self._span())
        self._summary.valid = self._valid

    def _span(self) -> Span:
        first, last = self._first_link, self._last_link
        span = Span(self._first, self._last, self._previous, first_place=self._first_place, last_place=self._last_place)
        if not self._is_counted or first is None or last is None:
            return span._replace(previous_hash=first and first.previous_hash)
        return span._replace(
            first_position=first.first,
            last_position=last.last,
            previous_hash=first.previous_hash,
            last_hash=last.hash,
        )
