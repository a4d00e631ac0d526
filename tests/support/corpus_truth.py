"""What the tables must say about a corpus, worked out from what the devices made and not from how the ingest works.

The rules are those of the manual, applied to whole lists in memory: a hole is where a message is there and the one it
names as its predecessor is not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from protocol.archive.manifest import BlockEntry
from protocol.clock import ClockCorrection
from protocol.events import GapNotice
from testbed.corpus.archives import Archive, Chain, Filed, Made, MadeReading, Ref

__all__ = ["Landed", "Truth"]


@dataclass
class Landed:
    """One file of the landing area: its bytes, and what is true of it."""

    name: str  # without the suffix
    data: bytes
    digest: str  # of the archive, decrypted
    filed: list[Filed] = field(default_factory=list)
    archive: Archive | None = None
    rejected: str | None = None  # the reason, if all of it is in quarantine
    damaged_blocks: list[BlockEntry] = field(default_factory=list)


@dataclass
class Truth:
    """The truth about some landed files, whatever the order in which they came."""

    landed: list[Landed]
    notices: list[tuple[str, GapNotice]] = field(default_factory=list)  # reported by signed messages that were ingested
    corrections: dict[str, ClockCorrection] = field(default_factory=dict)  # boot in hex → the one that counts

    @property
    def taken(self) -> list[Landed]:
        """Each archive once, without those that are in quarantine as a whole."""
        once = {landed.digest: landed for landed in reversed(self.landed)}
        return [landed for landed in once.values() if landed.rejected is None]

    @property
    def copies(self) -> list[Filed]:
        """The records of files that hold an archive again."""
        taken = {id(landed) for landed in self.taken}
        again = [landed for landed in self.landed if landed.rejected is None and id(landed) not in taken]
        return [filed for landed in again for filed in landed.filed]

    def archives(self) -> Counter[tuple[str, str]]:
        """Digest and verdict of each file."""
        seen: Counter[tuple[str, str]] = Counter()
        for landed in self.landed:
            is_copy = any(digest == landed.digest for digest, _ in seen)
            verdict = "damaged" if landed.damaged_blocks else "verified"
            first = verdict if landed.rejected is None else landed.rejected
            seen[landed.digest, "duplicate" if is_copy else first] += 1
        return seen

    @property
    def filed(self) -> list[Filed]:
        return [filed for landed in self.taken for filed in landed.filed]

    def messages(self) -> dict[tuple[str, str, int, int, int], dict[str, Any]]:
        """By device, chain, reference and index of the reading."""
        found = {}
        for filed in self.filed:
            if filed.made is not None and filed.reason is None:
                made = filed.made
                for index, reading in enumerate(made.readings):
                    found[made.chain.device.address, made.chain.name, *made.ref, index] = self._row(filed, reading)
        return found

    def places(self) -> dict[tuple[str, str, int, int], set[tuple[str, int]]]:
        """Where each message may say it was found: archive and record."""
        places = defaultdict(set)
        for landed in self.taken:
            for number, filed in enumerate(landed.filed):
                if filed.made is not None and filed.reason is None:
                    key = (filed.made.chain.device.address, filed.made.chain.name, *filed.made.ref)
                    places[key].add((landed.digest, number))
        return places

    def _row(self, filed: Filed, made: MadeReading) -> dict[str, Any]:
        own_ms = filed.record.timestamp_ms if made.row["content_state"] == "locked" else made.at_ms
        row = {**made.row, "arrived_at": _time(filed.record.arrived_at_ms)}
        row |= {"boot": made.boot, "monotonic_ms": made.monotonic_ms}
        if made.boot is None or made.monotonic_ms is None:
            row |= {"clock": "synchronised", "event_time": _time(own_ms)}
        elif made.boot in self.corrections:
            true_ms = made.monotonic_ms + self.corrections[made.boot].offset_ms
            row |= {"clock": "corrected", "event_time": _time(true_ms)}
        else:
            row |= {"clock": "unsynchronised", "event_time": _time(own_ms)}
        row["date"] = row["event_time"].date()
        return row

    def quarantine(self) -> Counter[tuple[str, int | None, int | None, int | None, str]]:
        """Archive, record, how many records and readings the row stands for, reason."""
        rows: Counter[tuple[str, int | None, int | None, int | None, str]] = Counter()
        for landed in {landed.digest: landed for landed in reversed(self.landed)}.values():
            if landed.rejected is not None:
                rows[landed.digest, None, None, None, landed.rejected] += 1
            for block in landed.damaged_blocks:
                rows[landed.digest, None, block.records, block.readings, "block damaged"] += 1
            for number, filed in enumerate(landed.filed):
                if filed.reason not in (None, "block damaged"):
                    rows[landed.digest, number, 1, filed.record.readings, filed.reason or ""] += 1
        return rows

    def gaps(self) -> list[dict[str, Any]]:
        present = self._present()
        return [
            self._gap(chain, made, present[id(chain)])
            for chain in self._chains()
            for made in chain.produced
            if made.ref in present[id(chain)] and _previous(made) not in (None, *present[id(chain)])
        ]

    def _gap(self, chain: Chain, made: Made, present: set[Ref]) -> dict[str, Any]:
        after = max((ref for ref in present if ref < made.ref), default=None)
        last = _previous(made)
        inside = {each.ref: len(each.readings) for each in chain.produced if (after or (-1, 0)) < each.ref < made.ref}
        reported = [notice for notice in self._reported(chain) if notice[0] in inside]
        held = self._held(chain, present)
        return {
            "device": chain.device.address,
            "chain": chain.name,
            "after_timestamp_ms": after and after[0],
            "after_sequence": after and after[1],
            "last_timestamp_ms": last and last[0],
            "last_sequence": last and last[1],
            "before_timestamp_ms": made.ref[0],
            "before_sequence": made.ref[1],
            "missing": sum(inside.values()) if chain.linked and chain.readable else None,
            "explained": sum(count for _, count, _ in reported),
            "held": sum(count for ref, count in held.items() if (after or (-1, 0)) < ref < made.ref),
            "cause": ", ".join(dict.fromkeys(cause for _, _, cause in sorted(reported))) or None,
        }

    def _held(self, chain: Chain, present: set[Ref]) -> dict[Ref, int]:
        """The readings of messages that are in quarantine and nowhere else."""
        held = [filed.record for filed in self.filed if self._is_held(filed, chain)]
        return {record.reference: record.readings for record in held if record.reference not in present}

    def _is_held(self, filed: Filed, chain: Chain) -> bool:
        return filed.reason not in (None, "block damaged") and filed.made is not None and filed.made.chain is chain

    def _reported(self, chain: Chain) -> list[tuple[Ref, int, str]]:
        """The losses of a chain that were reported, each once: its first reference, how many, and why."""
        reported: dict[tuple[str, int], tuple[Ref, int, str]] = {}
        for landed in self.taken:
            for loss in landed.archive.losses if landed.archive else ():
                if landed.archive and landed.archive.device is chain.device and loss.chain == chain.name and loss.first:
                    reported[chain.device.address, loss.number] = (tuple(loss.first), loss.count, loss.cause)  # type: ignore[assignment]
        for device, notice in self.notices:
            loss = notice.loss
            if device == chain.device.address and loss.chain == chain.name and loss.first:
                reported.setdefault((device, loss.number), (loss.first, loss.count, loss.cause))
        return list(reported.values())

    def _chains(self) -> list[Chain]:
        return list({id(filed.made.chain): filed.made.chain for filed in self.filed if filed.made}.values())

    def _present(self) -> dict[int, set[Ref]]:
        present: dict[int, set[Ref]] = defaultdict(set)
        for filed in self.filed:
            if filed.made is not None and filed.reason is None:
                present[id(filed.made.chain)].add(filed.made.ref)
        return present

    def ledger(self) -> dict[tuple[str, str], dict[str, Any]]:
        gaps = self.gaps()
        present = self._present()
        return {
            (chain.device.address, chain.name): self._ledger_row(chain, present[id(chain)], gaps)
            for chain in self._chains()
        }

    def _ledger_row(self, chain: Chain, present: set[Ref], gaps: list[dict[str, Any]]) -> dict[str, Any]:
        mine = [filed for filed in self.filed if filed.made is not None and filed.made.chain is chain]
        holes = [gap for gap in gaps if (gap["device"], gap["chain"]) == (chain.device.address, chain.name)]
        valid = [filed for filed in mine if filed.reason is None]
        found = {filed.made.ref: len(filed.made.readings) for filed in valid if filed.made is not None}
        held = sum(
            count
            for ref, count in self._held(chain, present).items()
            if ref > max(present) or any(_is_inside(gap, ref) for gap in holes)
        )
        explained = sum(gap["explained"] for gap in holes)
        unexplained = sum(_unexplained(gap) for gap in holes)
        copied = _count(filed for filed in self.copies if filed.made is not None and filed.made.chain is chain)
        ingested = sum(found.values())
        return {
            "produced": ingested + held + explained + unexplained,
            "archived": _count(mine) + copied,
            "ingested": ingested,
            "duplicate": _count(valid) - ingested + copied,
            "quarantined": _count(mine) - _count(valid),
            "held": held,
            "lost_explained": explained,
            "lost_unexplained": unexplained,
            "archives": len({id(landed) for landed in self.taken if any(each in mine for each in landed.filed)}),
            "balanced": True,
        }

    def rollups(self) -> dict[tuple[str, str, str, str, datetime], dict[str, Any]]:
        """By device, sensor, quantity, unit and minute."""
        numbers = [row for row in self.messages().values() if row["value"] is not None]
        known = [row for row in numbers if row["clock"] != "unsynchronised"]
        ordered = sorted(
            known, key=lambda row: (*_minute_of(row), row["event_time"], row["timestamp_ms"], row["reading"])
        )
        return {minute: _rolled_up(list(rows)) for minute, rows in groupby(ordered, key=_minute_of)}


def _count(filed: Iterable[Filed]) -> int:
    """Readings."""
    return sum(each.record.readings for each in filed)


def _previous(made: Made) -> Ref | None:
    previous = made.message.prev_msg_ref
    return None if previous is None else (previous.timestamp, previous.sequence_number)


def _is_inside(gap: dict[str, Any], ref: Ref) -> bool:
    after = (-1, 0) if gap["after_timestamp_ms"] is None else (gap["after_timestamp_ms"], gap["after_sequence"])
    return after < ref < (gap["before_timestamp_ms"], gap["before_sequence"])


def _unexplained(gap: dict[str, Any]) -> int:
    if gap["missing"] is None:
        return 0 if gap["explained"] or gap["held"] else 1
    return max(0, int(gap["missing"]) - int(gap["explained"]) - int(gap["held"]))


def _minute_of(row: dict[str, Any]) -> tuple[str, str, str, str, datetime]:
    minute = row["event_time"].replace(second=0, microsecond=0)
    return row["device"], row["sensor"], row["quantity"], row["unit"], minute


def _rolled_up(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = [row["value"] for row in rows]
    return {
        "count": len(values),
        "min": min(values),
        "max": max(values),
        "sum": sum(values),
        "mean": sum(values) / len(values),
        "last": values[-1],
        "last_time": rows[-1]["event_time"],
        "date": rows[-1]["event_time"].date(),
    }


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


def merged(truths: Iterable[Truth]) -> Truth:
    """The truth about all of their files together."""
    together = Truth([])
    for truth in truths:
        together.landed += truth.landed
        together.notices += truth.notices
        together.corrections |= truth.corrections
    return together
