"""The judgement: nothing acknowledged was lost, nothing counted twice, every gap explained, every signature valid."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent.wrap import chain_name
from protocol.streamr import parse_stream_message
from testbed.oracle.evidence import Evidence, Said
from testbed.oracle.lake import Identity, Lake, Sensor, read_lake
from testbed.oracle.ledger import make_ledger
from testbed.scenario import Expectation

__all__ = ["Judgement", "judge"]

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
        said = f"{self.produced} said, {self.seen} seen, {self.arrived} in the lake from {self.archives} archives"
        return f"{said}, {self.copies} copies told apart, {self.lost_explained} given up and told"


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
        problems.append(f"{len(lake.messages)} messages arrived; at least {expectation.at_least} were expected")
    if expectation.losses == "none" and lake.told_in_all:
        problems.append(f"{lake.told_in_all} messages were given up by the devices; none should have been")
    if is_rotten and not lake.unreadable:
        problems.append("no archive rotted; the fault did not come about")
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
                yield f"lost: {who} has seen {identity}, and the lake has not"


def _is_told(identity: Identity, lake: Lake) -> bool:
    name = chain_name(identity.stream_id, identity.partition, identity.msg_chain_id)
    return any(
        notice.first is not None and notice.last is not None and notice.first <= identity.reference <= notice.last
        for notice in lake.told(identity.publisher, name)
    )


def _misheard(name: str, said: Said, lake: Lake, expectation: Expectation) -> Iterator[str]:
    """What a device said, and what the lake has of it."""
    numbers = lake.numbers.get(said.sensor, Counter())
    if invented := [number for number in numbers if not 1 <= number <= said.produced]:
        yield f"devices.{name} never said {invented[:MAX_SHOWN]}"
    if not said.may_repeat and (doubled := [number for number, count in numbers.items() if count > 1]):
        yield f"counted twice: {doubled[:MAX_SHOWN]} of devices.{name}"
    missing = sorted(said.owed - numbers.keys())
    allowed = lake.told_in_all if expectation.losses == "explained" else 0
    if len(missing) > allowed and expectation.archives == "whole":
        yield f"lost: devices.{name} was promised {missing[:MAX_SHOWN]} ({len(missing)} in all)"


def _miscounted(name: str, sensor: Sensor, lake: Lake) -> Iterator[str]:
    """A microcontroller keeps what is not acknowledged, so nothing is missing or doubled in what it has counted."""
    numbers = lake.numbers.get(sensor)
    if not numbers:
        yield f"devices.{name} was never heard"
        return
    if missing := sorted(set(range(max(numbers))) - numbers.keys()):
        yield f"lost: {missing[:MAX_SHOWN]} of devices.{name} ({len(missing)} in all)"
    if doubled := [number for number, count in numbers.items() if count > 1]:
        yield f"counted twice: {doubled[:MAX_SHOWN]} of devices.{name}"


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
