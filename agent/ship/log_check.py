"""Compares the collector's answer to a checkpoint with the device log."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.archive.state import ArchiveState
from protocol.devicelog.answer import HeartbeatAnswer, LogStatus, NumberRange

REASONS = {
    LogStatus.BEHIND: "the collector holds more of the log than this device: its disk is an old copy",
    LogStatus.FORKED: "the collector holds another log under the same id: the disk of this device was copied",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """What an answer means."""

    held_size: int  # archives that the collector holds without a hole
    lost: int = 0  # archives with a receipt that the collector does not hold any more
    new_log: str = ""  # why a new log has to begin, or empty

    @property
    def problem(self) -> str:
        """For the operator."""
        if self.lost:
            return f"the collector holds less than it gave receipts for: it lacks {self.lost} archives of the log"
        return ""


def check_answer(answer: HeartbeatAnswer, state: ArchiveState) -> LogCheck:
    """`state`: of the archives when the answer came. Archives that wait are shipped before a new log begins.

    If the collector refuses one of these, their records go into the new log.
    """
    waiting = [each for each in state.kept if each.entry.log == state.log.log]
    if answer.status is not LogStatus.OK:
        return LogCheck(held_size=answer.held_size, new_log="" if waiting else REASONS[answer.status])
    replaced = [each.entry.replaces for each in waiting] + [each.replaces for each in state.damaged]
    numbers = {each.entry.number for each in waiting} | {each.number for those in replaced for each in those}
    return LogCheck(held_size=answer.held_size, lost=_count(answer.missing, state.log.size, numbers))


def _count(missing: Iterable[NumberRange], size: int, waiting: set[int]) -> int:
    """The numbers of this log that the collector lacks, without those that wait here."""
    ranges = [(each.first, min(each.next, size)) for each in missing]
    lacking = sum(max(0, after - first) for first, after in ranges)
    return lacking - sum(any(first <= number < after for first, after in ranges) for number in waiting)
