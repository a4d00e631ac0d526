"""The account of every chain: what was archived, what of it is in the tables, what is missing and why.

It grows by the summaries of archives, in any order, each once. Its size follows the number of chains and of their
holes, not of their messages, so it is kept whole beside the tables and committed with them.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import orjson

from ingest.decoded import MAX_INTEGER
from ingest.device_logs import LogAccount, LogName, Range
from ingest.log_ledger import ARCHIVE_MISSING, LaneName, missing_places
from ingest.spans import Hole, Ref, Span, holes_between, overlaps, unite
from ingest.summary import ArchiveSummary, ChainSummary, Correction, loss_from_json, span_from_json
from protocol.devicelog.checkpoint import Checkpoint
from protocol.losses import Loss

Lane = tuple[str, int]  # a journal, and one of its lanes


class ChainName(NamedTuple):
    device: str
    chain: str


class Boot(NamedTuple):
    """One start of one device, the id in hex."""

    device: str
    boot: str


class Suspect(NamedTuple):
    """A stretch of a chain in which a message may come a second time."""

    device: str
    chain: str
    first_ms: int
    last_ms: int


class Gap(NamedTuple):
    """A hole with what is known of its cause."""

    name: ChainName
    hole: Hole
    explained: int
    held: int
    cause: str | None


@dataclass(slots=True)
class ChainAccount:
    archived: int = 0
    ingested: int = 0
    duplicate: int = 0
    quarantined: int = 0
    forked: int = 0
    archives: int = 0
    unreconciled: int = 0  # records that a manifest counts and nobody found, or the other way round
    spans: list[Span] = field(default_factory=list)  # united, in order
    held: dict[Ref, int] = field(default_factory=dict)  # readings of messages in quarantine that no span holds
    lane: Lane | None = None  # None until a message of the chain has come

    def add(self, found: ChainSummary, journal: str) -> None:
        if found.lane is not None:
            self.lane = (journal, found.lane)
        self.archived += found.archived
        self.ingested += found.valid
        self.quarantined += found.rejected + found.damaged
        self.unreconciled += abs(found.archived - found.valid - found.rejected - found.damaged)
        self.forked += found.forked
        self.archives += 1
        self.spans = unite([*self.spans, *found.spans])
        for timestamp_ms, sequence, readings in found.held:
            ref = (timestamp_ms, sequence)
            self.held[ref] = max(readings, self.held.get(ref, 0))
        self.held = {ref: count for ref, count in self.held.items() if not overlaps(self.spans, Span(ref, ref, None))}

    def refine(self, found: ChainSummary) -> None:
        """Take over the positions of runs that were known without."""
        counted = {(span.first, span.last): span for span in found.spans if span.last_position is not None}
        self.spans = [
            counted.get((span.first, span.last), span) if span.last_position is None else span for span in self.spans
        ]

    @property
    def broken_links(self) -> int:
        return self.forked + sum(span.broken_links for span in self.spans)


@dataclass(slots=True)
class Account:
    commits: int = 0
    chains: dict[ChainName, ChainAccount] = field(default_factory=dict)
    losses: dict[tuple[str, str, int], Loss] = field(default_factory=dict)  # by device, journal and number
    corrections: dict[Boot, Correction] = field(default_factory=dict)
    boot_dates: dict[Boot, set[str]] = field(default_factory=dict)  # where messages lie whose time a correction tells
    logs: dict[LogName, LogAccount] = field(default_factory=dict)

    def suspects(self, summaries: Iterable[ArchiveSummary]) -> list[Suspect]:
        """Where the new archives overlap each other or what is known. Elsewhere no message can come twice."""
        suspects = []
        seen = {name: account.spans for name, account in self.chains.items()}
        for summary in summaries:
            for chain, found in summary.chains.items():
                name = ChainName(summary.device or "", chain)
                known = seen.get(name, [])
                suspects += [_suspect(name, span) for span in found.spans if found.unordered or overlaps(known, span)]
                seen[name] = unite([*known, *found.spans])
        return suspects

    def add(self, summaries: Iterable[ArchiveSummary], duplicates: Mapping[ChainName, int]) -> None:
        """Enter archives that were never entered before, and how many of each chain's messages were duplicates."""
        for summary in summaries:
            device = summary.device or ""
            for chain, found in summary.chains.items():
                self.chains.setdefault(ChainName(device, chain), ChainAccount()).add(found, summary.journal or "")
            self._note_losses(device, summary.losses)
            self._enter_log(device, summary)
        for name, count in duplicates.items():
            self.chains[name].ingested -= count
            self.chains[name].duplicate += count

    def _enter_log(self, device: str, summary: ArchiveSummary) -> None:
        if summary.entry is not None:
            log = self.logs.setdefault(LogName(device, summary.entry.log.hex()), LogAccount())
            log.add_archive(summary.entry, summary.lane_readings, summary.landed_at_ms, summary.journal or "")

    def add_checkpoints(self, checkpoints: Iterable[tuple[Checkpoint, int]]) -> None:
        """Enter checkpoints, each with the time at which it came."""
        for checkpoint, landed_at_ms in checkpoints:
            name = LogName(f"0x{checkpoint.device.hex()}", checkpoint.log.hex())
            self.logs.setdefault(name, LogAccount()).add_checkpoint(checkpoint, landed_at_ms)

    def add_duplicates(self, duplicates: Iterable[ArchiveSummary]) -> None:
        """Count the records of archives that were entered before and were delivered again in another file."""
        for summary in duplicates:
            for chain, found in summary.chains.items():
                account = self.chains[ChainName(summary.device or "", chain)]
                account.archived += found.archived
                account.duplicate += found.archived

    def refine(self, summaries: Iterable[ArchiveSummary]) -> None:
        """Learn more of archives that were entered before and could be opened further."""
        for summary in summaries:
            device = summary.device or ""
            for chain, found in summary.chains.items():
                self.chains[ChainName(device, chain)].refine(found)
            self._note_losses(device, summary.losses)

    def _note_losses(self, device: str, losses: Iterable[tuple[str, Loss]]) -> None:
        """Each once, whether a message, a manifest or both tell of it."""
        for journal, loss in losses:
            self.losses.setdefault((device, journal, loss.number), loss)

    def learn(self, summaries: Iterable[ArchiveSummary]) -> set[Boot]:
        """Take in the corrections of new archives. The boots of which the true time has changed by that."""
        before = dict(self.corrections)
        for summary in summaries:
            for correction in summary.corrections:
                boot = Boot(summary.device or "", correction.boot)
                known = self.corrections.get(boot)
                if known is None or correction.made_at_ms > known.made_at_ms:
                    self.corrections[boot] = correction
        return {boot for boot, correction in self.corrections.items() if before.get(boot) != correction}

    def gaps(self) -> list[Gap]:
        """Every hole there is now."""
        by_chain: dict[ChainName, list[Loss]] = {}
        chainless: dict[str, _Chainless] = {}  # damage to a compressed block hides whose messages were in it
        for (device, journal, _), loss in self.losses.items():
            if loss.chain:
                by_chain.setdefault(ChainName(device, loss.chain), []).append(loss)
            else:
                chainless.setdefault(device, _Chainless()).add(journal, loss)
        missing = missing_places(self.logs)
        found = []
        for name, account in sorted(self.chains.items()):
            for gap in _explain(name, holes_between(account.spans), by_chain.get(name, []), account.held):
                explained = chainless[name.device].explain(gap, account.lane) if name.device in chainless else gap
                found.append(_name_missing_archive(explained, account.lane, missing))
        return found

    def ledger(self) -> list[dict[str, Any]]:
        """The rows of the ledger, in the order of their chains."""
        by_chain: dict[ChainName, list[Gap]] = {}
        for gap in self.gaps():
            by_chain.setdefault(gap.name, []).append(gap)
        return [_ledger_row(name, account, by_chain.get(name, [])) for name, account in sorted(self.chains.items())]

    def to_json(self) -> bytes:
        values = {
            "commits": self.commits,
            "chains": [[*name, _chain_to_json(account)] for name, account in self.chains.items()],
            "losses": [[device, journal, loss] for (device, journal, _), loss in self.losses.items()],
            "corrections": [[boot.device, correction] for boot, correction in self.corrections.items()],
            "boot_dates": [[*boot, sorted(dates)] for boot, dates in self.boot_dates.items()],
            "logs": [[*name, log.to_json()] for name, log in self.logs.items()],
        }
        return orjson.dumps(values, default=tuple)

    @classmethod
    def from_json(cls, data: bytes) -> "Account":
        values = orjson.loads(data)
        losses = [(device, journal, loss_from_json(loss)) for device, journal, loss in values["losses"]]
        return cls(
            commits=values["commits"],
            chains={ChainName(device, chain): _chain_from_json(rest) for device, chain, rest in values["chains"]},
            losses={(device, journal, loss.number): loss for device, journal, loss in losses},
            corrections={Boot(device, each[0]): Correction(*each) for device, each in values["corrections"]},
            boot_dates={Boot(device, boot): set(dates) for device, boot, dates in values["boot_dates"]},
            logs={LogName(device, log): LogAccount.from_json(rest) for device, log, rest in values["logs"]},
        )


def _suspect(name: ChainName, span: Span) -> Suspect:
    return Suspect(*name, span.first[0], span.last[0])


def _explain(name: ChainName, holes: list[Hole], losses: list[Loss], held: dict[Ref, int]) -> Iterator[Gap]:
    """A loss explains the holes that it touches: of each no more than is missing, in all no more than it counts.

    A device also tells of messages that it gave up when they were in an archive already, so a loss may begin before
    its hole and count more than is missing.
    """
    in_order = sorted(losses, key=lambda each: (each.first or (), each.number))
    to_come = deque(
        _Remaining(each, each.count, each.first, each.last) for each in in_order if each.first and each.last
    )
    touching: list[_Remaining] = []
    in_quarantine = sorted(held)
    readings_held = list(accumulate((held[ref] for ref in in_quarantine), initial=0))
    for hole in holes:  # in order, as the losses are: each is looked at from its first hole to its last, and no more
        while to_come and to_come[0].first < hole.before:
            touching.append(to_come.popleft())
        touching = [each for each in touching if each.count and (hole.after is None or hole.after < each.last)]
        first, last = _within(hole, in_quarantine)
        held_here = readings_held[last] - readings_held[first]
        wanted = None if hole.missing is None else max(0, hole.missing - held_here)
        explained = 0
        for each in touching:
            used = each.count if wanted is None else min(each.count, wanted - explained)
            each.count -= used
            explained += used
        causes = dict.fromkeys(each.loss.cause for each in touching)
        yield Gap(name, hole, explained=explained, held=held_here, cause=", ".join(causes) or None)


@dataclass(slots=True)
class _Remaining:
    """How much of a loss explains no hole yet."""

    loss: Loss
    count: int
    first: Ref
    last: Ref


class _Chainless:
    """Losses of one device whose chain is unknown: they explain what is missing where they stood.

    As above, of each hole no more than is missing, and in all no more than they count.
    """

    def __init__(self) -> None:
        self._by_lane: dict[Lane, list[Loss]] = {}
        self._remaining: dict[tuple[str, int], int] = {}

    def add(self, journal: str, loss: Loss) -> None:
        self._remaining[journal, loss.number] = loss.count
        in_lane = self._by_lane.setdefault((journal, loss.lane), [])
        insort(in_lane, loss, key=lambda each: (each.first_position, each.last_position, each.number))

    def explain(self, gap: Gap, lane: Lane | None) -> Gap:
        if lane is None or gap.hole.places is None:
            return gap
        journal, _ = lane
        for loss in self._by_lane.get(lane, ()):
            used = min(_unexplained(gap), self._remaining[journal, loss.number])
            if used and _stood_between(gap.hole.places, loss):
                self._remaining[journal, loss.number] -= used
                gap = gap._replace(explained=gap.explained + used, cause=_both(gap.cause, loss.cause))
        return gap


def _name_missing_archive(gap: Gap, lane: Lane | None, missing: Mapping[LaneName, list[Range]]) -> Gap:
    """The cause of a gap that no loss explains and where an archive is missing. It stays unexplained."""
    if lane is None or gap.hole.places is None or not _unexplained(gap):
        return gap
    after, before = gap.hole.places
    is_there = any(first < before and after < end - 1 for first, end in missing.get((gap.name.device, *lane), ()))
    return gap._replace(cause=_both(gap.cause, ARCHIVE_MISSING)) if is_there else gap


def _both(causes: str | None, another: str) -> str:
    return ", ".join(dict.fromkeys([*([] if causes is None else causes.split(", ")), another]))


def _stood_between(places: tuple[int, int], loss: Loss) -> bool:
    after, before = places
    return loss.first_position < before and after < loss.last_position


def _within(hole: Hole, in_order: list[Ref]) -> tuple[int, int]:
    """Where references that lie within the hole begin and end."""
    return (0 if hole.after is None else bisect_right(in_order, hole.after)), bisect_left(in_order, hole.before)


def _ledger_row(name: ChainName, account: ChainAccount, gaps: list[Gap]) -> dict[str, Any]:
    explained = sum(gap.explained for gap in gaps)
    unexplained = sum(map(_unexplained, gaps))
    held = sum(account.held.values())
    produced = _produced(account)
    if produced is None:
        produced = account.ingested + held + explained + unexplained
    adds_up = produced == account.ingested + held + explained + unexplained
    archived_adds_up = account.archived == account.ingested + account.duplicate + account.quarantined
    return {
        "device": name.device,
        "chain": name.chain,
        "produced": min(produced, MAX_INTEGER),
        "archived": account.archived,
        "ingested": account.ingested,
        "duplicate": account.duplicate,
        "quarantined": account.quarantined,
        "held": held,
        "lost_explained": min(explained, MAX_INTEGER),
        "lost_unexplained": unexplained,
        "broken_links": account.broken_links,
        "archives": account.archives,
        "balanced": adds_up and archived_adds_up and not account.unreconciled,
    }


def _unexplained(gap: Gap) -> int:
    """At least one message is missing in a hole of which nothing is known."""
    if gap.hole.missing is None:
        return 0 if gap.explained or gap.held else 1
    return max(0, gap.hole.missing - gap.explained - gap.held)


def _produced(account: ChainAccount) -> int | None:
    """By the chain positions, which count from 0; what is in quarantine behind the last of them comes on top."""
    last = account.spans[-1] if account.spans else None
    if last is None or last.last_position is None or any(span.last_position is None for span in account.spans):
        return None
    return last.last_position + 1 + sum(count for ref, count in account.held.items() if ref > last.last)


def _chain_to_json(account: ChainAccount) -> list[Any]:
    return [
        account.archived, account.ingested, account.duplicate, account.quarantined, account.forked, account.archives,
        account.unreconciled, account.spans, sorted(account.held.items()), account.lane,
    ]  # fmt: skip


def _chain_from_json(values: list[Any]) -> ChainAccount:
    archived, ingested, duplicate, quarantined, forked, archives, unreconciled, spans, held, lane = values
    return ChainAccount(
        archived=archived,
        ingested=ingested,
        duplicate=duplicate,
        quarantined=quarantined,
        forked=forked,
        archives=archives,
        unreconciled=unreconciled,
        spans=[span_from_json(span) for span in spans],
        held={(timestamp_ms, sequence): count for (timestamp_ms, sequence), count in held},
        lane=lane and tuple(lane),
    )
