"""The verdict on a scenario: nothing acknowledged is lost or duplicated, gaps are explained, signatures valid."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.pack.wrap import chain_name
from protocol.streamr.stream_message import parse_stream_message
from testbed.oracle.evidence import Evidence, Said
from testbed.oracle.lake import GroupKeys, Identity, Lake, Sensor, read_lake
from testbed.scenario import Expectation

if TYPE_CHECKING:
    from ingest.archive_rows import DecodeSettings
    from ingest.summary import ArchiveSummary

MAX_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    problems: tuple[str, ...]
    produced: int  # numbers that the devices said
    seen: int  # messages that someone had seen
    arrived: int  # messages in the lake, each once
    copies: int  # that came again and were told apart
    archives: int
    lost_explained: int  # that the devices themselves have signed for

    @property
    def is_good(self) -> bool:
        return not self.problems

    def as_line(self) -> str:
        return (
            f"{self.produced} produced, {self.seen} seen by others, {self.arrived} in the lake"
            f" from {self.archives} archives, {self.copies} duplicates removed, {self.lost_explained} lost and reported"
        )


def judge(evidence: Evidence, expectation: Expectation) -> Judgement:
    lake = read_lake(evidence.archives, evidence.group_keys)
    lake.check_chains()
    is_rotten = expectation.archives == "damaged"
    problems = [
        *lake.problems,
        *(() if is_rotten else lake.unreadable),
        *(() if is_rotten else _lost(evidence, lake)),
        *(problem for name, said in evidence.said.items() for problem in _misheard(name, said, lake, expectation)),
        *(problem for name, sensor in evidence.boards.items() for problem in _miscounted(name, sensor, lake)),
        *(() if is_rotten else _ledger_problems(evidence, lake)),
    ]
    if len(lake.messages) < expectation.at_least:
        problems.append(f"{len(lake.messages)} messages arrived; expected at least {expectation.at_least}")
    if expectation.losses == "none" and lake.told_in_all:
        problems.append(f"the devices reported {lake.told_in_all} lost messages; expected none")
    if is_rotten and not lake.unreadable:
        problems.append("no archive was damaged; the fault had no effect")
    return Judgement(
        problems=_cut(problems),
        produced=sum(said.produced for said in evidence.said.values()),
        seen=len(evidence.seen),
        arrived=len(lake.messages),
        copies=lake.copies,
        archives=len(evidence.archives),
        lost_explained=lake.told_in_all,
    )


def _lost(evidence: Evidence, lake: Lake) -> Iterator[str]:
    """What someone has seen is in the lake, or still on the device, or given up with a signature."""
    there = {arrived.text for arrived in lake.messages.values()} | evidence.left
    unnamed: dict[str, int] = {}
    for text, who in evidence.seen.items():
        if text in there:
            continue
        identity = Identity.of(parse_stream_message(text))
        if not _is_told(identity, lake):
            unnamed[identity.publisher] = unnamed.get(identity.publisher, 0) + 1
            if unnamed[identity.publisher] > lake.told_without_chain(identity.publisher):
                yield f"lost: {who} has {identity}, but the lake does not"


def _is_told(identity: Identity, lake: Lake) -> bool:
    name = chain_name(identity.stream_id, identity.partition, identity.msg_chain_id)
    return any(
        loss.first is not None and loss.last is not None and loss.first <= identity.reference <= loss.last
        for loss in lake.told(identity.publisher, name)
    )


def _misheard(name: str, said: Said, lake: Lake, expectation: Expectation) -> Iterator[str]:
    """Compares the numbers that a device sent with those in the lake."""
    numbers = lake.numbers.get(said.sensor, Counter())
    if invented := [number for number in numbers if not 1 <= number <= said.produced]:
        yield f"not produced by devices.{name}, but in the lake: {invented[:MAX_SHOWN]}"
    if not said.may_repeat and (doubled := [number for number, count in numbers.items() if count > 1]):
        yield f"duplicated: {doubled[:MAX_SHOWN]} of devices.{name}"
    missing = sorted(said.owed - numbers.keys())
    allowed = lake.told_in_all if expectation.losses == "explained" else 0
    if len(missing) > allowed and expectation.archives == "whole":
        yield f"lost after acknowledgement: {missing[:MAX_SHOWN]} of devices.{name} ({len(missing)} in all)"


def _miscounted(name: str, sensor: Sensor, lake: Lake) -> Iterator[str]:
    """A microcontroller keeps what is not acknowledged, so nothing is missing or doubled in what it has counted."""
    numbers = lake.numbers.get(sensor)
    if not numbers:
        yield f"no message of devices.{name} arrived"
        return
    if missing := sorted(set(range(max(numbers))) - numbers.keys()):
        yield f"lost: {missing[:MAX_SHOWN]} of devices.{name} ({len(missing)} in all)"
    if doubled := [number for number, count in numbers.items() if count > 1]:
        yield f"duplicated: {doubled[:MAX_SHOWN]} of devices.{name}"


def _ledger_problems(evidence: Evidence, lake: Lake) -> Iterator[str]:
    rows = make_ledger(evidence.archives, evidence.group_keys)
    for row in rows:
        for column in ("lost_unexplained", "quarantined", "broken_links"):
            if row[column]:
                yield f"the ledger: {column} {row[column]} in chain {row['chain']}"
    ingested = sum(row["ingested"] for row in rows) - lake.copies
    if ingested != len(lake.messages):
        yield f"the ledger counts {ingested} messages, the oracle {len(lake.messages)}"


def _cut(problems: list[str]) -> tuple[str, ...]:
    shown = problems[:MAX_SHOWN]
    more = len(problems) - len(shown)
    return (*shown, f"and {more} more") if more else tuple(shown)


def make_ledger(archives: Iterable[Path], keys: GroupKeys) -> list[dict[str, Any]]:
    """One row per chain. Copies of a message are not looked for: the oracle counts them itself."""
    from ingest.account import Account
    from ingest.archive_rows import DecodeSettings  # brings Spark's types, which take their time

    settings = DecodeSettings(group_keys={stream: dict(known) for stream, known in keys.items()})
    account = Account()
    account.add([_summary(path, settings) for path in archives], {})
    return account.ledger()


def _summary(path: Path, settings: "DecodeSettings") -> "ArchiveSummary":
    from ingest.archive_rows import decode_archive
    from ingest.summary import ArchiveSummary

    rows = decode_archive(str(path), path.read_bytes(), 0, settings, lambda _batch: None)
    [text] = [text for batch in rows for text in batch.column("summary").to_pylist() if text is not None]
    return ArchiveSummary.from_json(text)
