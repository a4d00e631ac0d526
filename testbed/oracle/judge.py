"""The verdict on a scenario: nothing acknowledged is lost or duplicated, gaps are explained, signatures valid."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent.pack.wrap import chain_name
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import parse_stream_message
from testbed.oracle.evidence import Evidence, Sent
from testbed.oracle.lake import Lake, Sensor, identity_of, read_lake
from testbed.oracle.ledger import make_ledger
from testbed.scenario import Expectation

MAX_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    problems: tuple[str, ...]
    produced: int  # numbers that the devices sent
    seen: int  # messages that nodes and witnesses received
    arrived: int  # different messages in the lake
    duplicates: int  # removed
    archives: int
    lost_explained: int  # reported by the devices in signed messages

    def as_line(self) -> str:
        return (
            f"{self.produced} produced, {self.seen} seen by others, {self.arrived} in the lake from {self.archives}"
            f" archives, {self.duplicates} duplicates removed, {self.lost_explained} lost and reported"
        )


def judge(evidence: Evidence, expectation: Expectation) -> Judgement:
    lake = read_lake(evidence.archives, evidence.group_keys)
    lake.check_chains()
    is_damaged = expectation.archives == "damaged"
    problems = [
        *lake.problems,
        *(() if is_damaged else lake.unreadable),
        *(() if is_damaged else _lost(evidence, lake)),
        *(problem for name, sent in evidence.sent.items() for problem in _check_numbers(name, sent, lake, expectation)),
        *(problem for name, sensor in evidence.boards.items() for problem in _check_board(name, sensor, lake)),
        *(() if is_damaged else _ledger_problems(evidence, lake)),
    ]
    if len(lake.messages) < expectation.at_least:
        problems.append(f"{len(lake.messages)} messages arrived; expected at least {expectation.at_least}")
    if expectation.losses == "none" and lake.reported_losses:
        problems.append(f"the devices reported {lake.reported_losses} lost messages; expected none")
    if is_damaged and not lake.unreadable:
        problems.append("no archive was damaged; the fault had no effect")
    return Judgement(
        problems=_cut(problems),
        produced=sum(sent.produced for sent in evidence.sent.values()),
        seen=len(evidence.seen),
        arrived=len(lake.messages),
        duplicates=lake.duplicates,
        archives=len(evidence.archives),
        lost_explained=lake.reported_losses,
    )


def _lost(evidence: Evidence, lake: Lake) -> Iterator[str]:
    """Every received message must be in the lake, still on its device, or reported as lost in a signed message."""
    there = {arrived.text for arrived in lake.messages.values()} | evidence.left
    unnamed: dict[str, int] = {}
    for text, receiver in evidence.seen.items():
        if text in there:
            continue
        identity = identity_of(parse_stream_message(text))
        if not _is_reported(identity, lake):
            unnamed[identity.publisher_id] = unnamed.get(identity.publisher_id, 0) + 1
            if unnamed[identity.publisher_id] > lake.reported_without_chain(identity.publisher_id):
                yield f"lost: {receiver} has {identity}, but the lake does not"


def _is_reported(identity: MessageID, lake: Lake) -> bool:
    name = chain_name(identity.stream_id, identity.stream_partition, identity.msg_chain_id)
    return any(
        loss.first is not None and loss.last is not None and loss.first <= identity.ref <= loss.last
        for loss in lake.reported(identity.publisher_id, name)
    )


def _check_numbers(name: str, sent: Sent, lake: Lake, expectation: Expectation) -> Iterator[str]:
    """Compares the numbers that a device sent with those in the lake."""
    numbers = lake.numbers.get(sent.sensor, Counter())
    if invented := [number for number in numbers if not 1 <= number <= sent.produced]:
        yield f"not produced by devices.{name}, but in the lake: {invented[:MAX_SHOWN]}"
    if not sent.may_repeat and (doubled := [number for number, count in numbers.items() if count > 1]):
        yield f"duplicated: {doubled[:MAX_SHOWN]} of devices.{name}"
    missing = sorted(sent.promised - numbers.keys())
    allpromised = lake.reported_losses if expectation.losses == "explained" else 0
    if len(missing) > allpromised and expectation.archives == "whole":
        yield f"lost after acknowledgement: {missing[:MAX_SHOWN]} of devices.{name} ({len(missing)} in all)"


def _check_board(name: str, sensor: Sensor, lake: Lake) -> Iterator[str]:
    """A microcontroller holds what is not acknowledged, so no number may be missing or duplicated."""
    numbers = lake.numbers.get(sensor)
    if not numbers:
        yield f"no message of devices.{name} arrived"
        return
    if missing := sorted(set(range(max(numbers))) - numbers.keys()):
        yield f"lost: {missing[:MAX_SHOWN]} of devices.{name} ({len(missing)} in all)"
    if doubled := [number for number, count in numbers.items() if count > 1]:
        yield f"duplicated: {doubled[:MAX_SHOWN]} of devices.{name}"


def _ledger_problems(evidence: Evidence, lake: Lake) -> Iterator[str]:
    rows = make_ledger(evidence.archives, evidence.group_keys).chains
    for row in rows:
        for column in ("lost_unexplained", "quarantined", "broken_links"):
            if row[column]:
                yield f"the ledger: {column} {row[column]} in chain {row['chain']}"
    ingested = sum(row["ingested"] for row in rows) - lake.duplicates
    if ingested != len(lake.messages):
        yield f"the ledger counts {ingested} messages, the oracle {len(lake.messages)}"


def _cut(problems: list[str]) -> tuple[str, ...]:
    shown = problems[:MAX_SHOWN]
    more = len(problems) - len(shown)
    return (*shown, f"and {more} more") if more else tuple(shown)
