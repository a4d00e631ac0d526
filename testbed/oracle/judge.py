"""The verdict on a scenario: nothing acknowledged is lost or duplicated, gaps are explained, signatures valid, and the
ledger names exactly what is missing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from testbed.oracle.evidence import Evidence, Sent
from testbed.oracle.lake import Lake, check_chains, read_lake
from testbed.oracle.ledger import make_ledger
from testbed.oracle.messages import MessageReader, Sensor
from testbed.oracle.truth import DeviceTruth, find_truth
from testbed.scenario import Expectation

if TYPE_CHECKING:
    from ingest.totals import Totals

MAX_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Counts of readings."""

    problems: tuple[str, ...]
    sent: int  # numbers that the devices sent
    archives: int
    duplicates: int  # removed
    lost_explained: int  # reported by the devices in signed messages
    devices: Mapping[str, DeviceTruth] = field(default_factory=dict)

    @property
    def arrived(self) -> int:
        return sum(each.arrived for each in self.devices.values())

    @property
    def missing(self) -> int:
        return sum(each.missing for each in self.devices.values())

    def as_line(self) -> str:
        committed = sum(each.produced for each in self.devices.values())
        on_device = sum(each.on_device for each in self.devices.values())
        return (
            f"{self.sent} numbers sent; {committed} readings committed, {self.arrived} in the lake from {self.archives}"
            f" archives, {self.duplicates} duplicates removed, {self.lost_explained} lost and reported,"
            f" {self.missing} missing, {on_device} still on the devices"
        )


def judge(evidence: Evidence, expectation: Expectation) -> Judgement:
    reader = MessageReader(evidence.group_keys)
    lake, removed = read_lake(evidence.archives, reader), _read_removed(evidence, reader)
    truth = find_truth(evidence, lake, removed, reader)
    problems = [
        *lake.problems,
        *(() if expectation.archives == "damaged" else lake.unreadable),
        *check_chains(lake, removed),
        *truth.problems,
        *(problem for name, sent in evidence.sent.items() for problem in _check_numbers(name, sent, lake, removed)),
        *(problem for name, sensor in evidence.boards.items() for problem in _check_board(name, sensor, lake)),
        *_ledger_problems(evidence, lake, truth.devices),
    ]
    judgement = Judgement(
        problems=(),
        sent=sum(sent.produced for sent in evidence.sent.values()),
        archives=len(evidence.archives),
        duplicates=lake.duplicates.total(),
        lost_explained=lake.reported_losses,
        devices=truth.devices,
    )
    problems += [*_unexpected(expectation, judgement, lake), *_unexpected_logs(expectation, evidence)]
    return replace(judgement, problems=_cut(problems))


def _read_removed(evidence: Evidence, reader: MessageReader) -> Lake:
    removed = read_lake(evidence.removed_archives, reader)
    for text in evidence.removed_texts:
        removed.add(text, reader)
    return removed


def _unexpected(expectation: Expectation, judgement: Judgement, lake: Lake) -> Iterator[str]:
    if judgement.arrived < expectation.at_least:
        yield f"{judgement.arrived} readings arrived; expected at least {expectation.at_least}"
    if expectation.losses == "none" and lake.reported_losses:
        yield f"the devices reported {lake.reported_losses} lost readings; expected none"
    if expectation.archives == "damaged" and not lake.unreadable:
        yield "no archive was damaged; the fault had no effect"
    if expectation.missing != "any" and (expectation.missing == "some") != (judgement.missing > 0):
        yield f"{judgement.missing} readings are missing; expected {expectation.missing}"


def _unexpected_logs(expectation: Expectation, evidence: Evidence) -> Iterator[str]:
    if expectation.logs == "forked" and not any(log.is_forked for log in evidence.logs):
        yield "no collector has noticed that a log is forked"
    if expectation.logs in ("continued", "forked") and not any(log.previous_log for log in evidence.logs):
        yield "no device has begun a new log"


def _check_numbers(name: str, sent: Sent, lake: Lake, removed: Lake) -> Iterator[str]:
    """Compares the numbers that a device sent with those in the lake."""
    numbers = lake.numbers.get(sent.sensor, Counter())
    if invented := [number for number in numbers if not 1 <= number <= sent.produced]:
        yield f"not produced by devices.{name}, but in the lake: {invented[:MAX_SHOWN]}"
    if not sent.may_repeat and (doubled := [number for number, count in numbers.items() if count > 1]):
        yield f"duplicated: {doubled[:MAX_SHOWN]} of devices.{name}"
    missing = sorted(sent.promised - numbers.keys() - removed.numbers.get(sent.sensor, Counter()).keys())
    if len(missing) > lake.reported_losses:
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


def _ledger_problems(evidence: Evidence, lake: Lake, truth: Mapping[str, DeviceTruth]) -> Iterator[str]:
    ledger = make_ledger(evidence.archives, evidence.group_keys, *evidence.landings, duplicates=lake.duplicates)
    for row in ledger.chains:
        for column in ("quarantined", "broken_links"):
            if row[column]:
                yield f"the ledger: {column} {row[column]} in chain {row['chain']}"
    forked = {log.log.hex() for log in evidence.logs if log.is_forked}
    if wrong := [row["log"] for row in ledger.logs if row["forked"] != (row["log"] in forked)]:
        yield f"the ledger and the collector do not agree whether these logs are forked: {wrong[:MAX_SHOWN]}"
    for device, found in truth.items():
        is_forked = any(row["forked"] for row in ledger.logs if row["device"] == device)
        yield from find_differences(device, ledger.totals_of(device), found, is_forked=is_forked)


def find_differences(device: str, totals: "Totals", truth: DeviceTruth, *, is_forked: bool) -> Iterator[str]:
    """Of the ledger to the truth. Only the device knows exactly which positions were lost before they were archived."""
    if totals.ingested != truth.arrived:
        yield f"the ledger counts {totals.ingested} readings of {device} as ingested, the oracle {truth.arrived}"
    for figure in ("produced", "missing", "on_device"):
        stated, true = getattr(totals, figure), getattr(truth, figure)
        if not true <= stated <= true + truth.lost:
            yield f"the ledger counts {stated} readings of {device} as {figure}, the oracle {true} ({truth.lost} lost)"
    if totals.lost_unexplained:
        yield f"the ledger: {totals.lost_unexplained} readings of {device} are lost, unexplained"
    if totals.complete != (not totals.missing and not is_forked):
        yield f"the ledger says of {device} that complete is {totals.complete}: {totals.as_line()}"


def _cut(problems: list[str]) -> tuple[str, ...]:
    shown = problems[:MAX_SHOWN]
    more = len(problems) - len(shown)
    return (*shown, f"and {more} more") if more else tuple(shown)
