"""The records of one archive in order: how each goes on from the one before, and what its chains amount to."""

from ingest.decoded import ChainLink, Decoded, Ref
from ingest.reasons import Quarantined, Reason
from ingest.runs import Run
from ingest.spans import Span
from ingest.summary import ArchiveSummary, ChainSummary, Correction
from protocol.archive.records import Record
from protocol.clock import ClockCorrection
from protocol.events import GapNotice

__all__ = ["LINKED", "Walk"]

FIRST, LINKED, FORKED, UNLINKED = "first", "linked", "forked", "unlinked"


class Walk:
    """Give it every record that was decoded, and finish. The summary is complete then."""

    def __init__(self, summary: ArchiveSummary) -> None:
        self._summary = summary
        self._chains: dict[str, _ChainWalk] = {}
        self._boots: dict[str, None] = {}

    def take(self, record: Record, decoded: Decoded) -> str | Quarantined:
        """How the message is linked to the one before it; or why it does not belong into this chain."""
        walk = self._chains.get(record.chain)
        if walk is None:
            walk = self._chains[record.chain] = _ChainWalk(self._chain_of(record), record, decoded)
        elif walk.identity != decoded.identity:
            return Quarantined(Reason.MISFILED, f"it is filed under a chain of {walk.identity}")
        else:
            walk.extend(decoded, record.position)
        if decoded.boot is not None:
            self._boots.setdefault(decoded.boot)
        if decoded.event is not None:
            self._note_event(decoded.event)
        return walk.link(decoded.link)

    def go_on(self, chain: str, run: Run, place: int) -> None:
        """Take the rest of a run whose first message was taken; the last of it stood at `place` in the journal."""
        self._chains[chain].go_on(run, place)

    def reject(self, record: Record) -> None:
        chain = self._chain_of(record)
        chain.rejected += 1
        chain.held.append((record.timestamp_ms, record.sequence))

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
        "_first", "_first_link", "_first_place", "_is_counted", "_last", "_last_link", "_last_place", "_links",
        "_previous", "_summary", "_valid", "identity",
    )  # fmt: skip

    def __init__(self, summary: ChainSummary, record: Record, decoded: Decoded) -> None:
        self.identity = decoded.identity
        self._summary = summary
        self._valid = 0
        self._links: dict[str | None, ChainLink] = {}
        summary.lane = record.lane
        self._begin(decoded, record.position)

    def _begin(self, decoded: Decoded, place: int) -> None:
        self._valid += 1
        self._first_place = self._last_place = place
        self._first: Ref = decoded.ref
        self._last: Ref = decoded.ref
        self._previous = decoded.previous
        self._first_link = self._last_link = decoded.link
        self._is_counted = decoded.link is not None  # whether the positions count up by one

    def extend(self, decoded: Decoded, place: int) -> None:
        _, ref, previous, link, *_ = decoded
        if previous != self._last:
            self._summary.spans.append(self._span())
            self._summary.unordered |= ref <= self._last
            self._begin(decoded, place)
            return
        self._valid += 1
        self._last, self._last_place = ref, place
        before = self._last_link
        if link is None or before is None or link.position != before.position + 1:
            self._is_counted = False
        self._last_link = link

    def go_on(self, run: Run, place: int) -> None:
        self._valid += run.messages - 1
        self._last, self._last_place = run.last, place
        self._last_link = self._links[run.last_link.publisher] = run.last_link

    def link(self, link: ChainLink | None) -> str:
        """How it goes on from the message before it in the hash chain, where that is in this archive."""
        if link is None:
            return UNLINKED
        publisher, position, _, previous_hash = link
        before = self._links.get(publisher)
        self._links[publisher] = link
        if before is None or position != before.position + 1:
            return FIRST
        if previous_hash == before.hash:
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
            first_position=first.position,
            last_position=last.position,
            previous_hash=first.previous_hash,
            last_hash=last.hash,
        )
