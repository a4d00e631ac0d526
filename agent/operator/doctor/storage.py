"""Checks free space and permissions of the disk, and losses, forecasts and wear of the journal."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.archive.store import SET_ASIDE_SUFFIX
from agent.config.configuration import Config
from agent.errors import error_text
from agent.journal import JournalStats
from agent.journal.inspection import inspect_journal, open_read_only, stats_of
from agent.operator.doctor.finding import Finding, error, good, warning
from agent.operator.terminal import bytes_text, duration_text

DISK: Final = "disk"
JOURNAL: Final = "journal"
FULL_BYTES: Final = 16 << 20
LOW_SHARE: Final = 0.05
LOW_INODES: Final = 0.02
MAX_ENTRIES: Final = 1000  # of a folder that are inspected
SOON_S: Final = 86_400.0
SHORT_CARD_LIFE_S: Final = 365 * 86_400.0
WASTEFUL: Final = 4.0  # bytes written for each byte of payload
WORTH_JUDGING_BYTES: Final = 10_000_000  # before that, opening and closing weigh most
FREE_ADVICE: Final = "free disk space (journalctl --vacuum-size=50M, apt clean), or lower journal.max_megabytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """A folder of the agent, and the file system it is on."""

    folder: Path
    problem: str = ""  # why it cannot be inspected
    is_read_only: bool = False
    may_write: bool = True
    free_bytes: int = 0
    total_bytes: int = 0
    inodes_free_share: float = 1.0
    still_to_come_bytes: int = 0  # how much the agent may yet add, by its settings
    foreign_files: tuple[str, ...] = ()  # of another owner than the folder


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFacts:
    directory: Path
    problem: str = ""
    stats: JournalStats | None = None  # None: there is none yet


def gather_disks(config: Config) -> list[DiskFacts]:
    """Each folder once, those that are not there yet by the folder above."""
    growth = {config.journal_directory: config.journal.max_megabytes << 20}
    folders = [config.device.data_directory, config.journal_directory]
    if config.archive:
        folders.append(config.archive_directory)
    return [_gather_disk(folder, growth.get(folder, 0)) for folder in dict.fromkeys(folders)]


def _gather_disk(folder: Path, max_bytes: int) -> DiskFacts:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        stat = os.statvfs(there)
        foreign = tuple(files_not_of(folder.stat().st_uid, folder)) if there == folder else ()
        used_bytes = _size(folder) if max_bytes and there == folder else 0
    except OSError as refusal:
        return DiskFacts(folder=folder, problem=error_text(refusal))
    return DiskFacts(
        folder=folder,
        is_read_only=bool(stat.f_flag & os.ST_RDONLY),
        may_write=os.access(there, os.W_OK | os.X_OK),
        free_bytes=stat.f_bavail * stat.f_frsize,
        total_bytes=stat.f_blocks * stat.f_frsize,
        inodes_free_share=stat.f_favail / stat.f_files if stat.f_files else 1.0,
        still_to_come_bytes=max(0, max_bytes - used_bytes),
        foreign_files=foreign,
    )


def files_not_of(owner: int, folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for _, entry in zip(range(MAX_ENTRIES), entries, strict=False):
            if entry.stat(follow_symlinks=False).st_uid != owner:
                yield entry.name


def _size(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


def gather_set_aside(config: Config) -> list[str]:
    """Archives of a forked log that the journal no longer holds, by name."""
    return sorted(path.name for path in config.archive_directory.glob(f"*{SET_ASIDE_SUFFIX}")) if config.archive else []


def judge_set_aside(names: list[str]) -> list[Finding]:
    if not names:
        return []
    text = f"{len(names)} archives of a forked log were set aside: {names[0]}"
    advice = "give them to the operator of the collector, who knows the log they are of; then delete them"
    return [warning(DISK, text, advice)]


def judge_disk(facts: DiskFacts) -> list[Finding]:
    where = str(facts.folder)
    if facts.problem:
        return [error(DISK, f"{where}: {facts.problem}", "check the mount and its permissions")]
    if facts.is_read_only:
        advice = (
            "remount it; if the kernel made it read-only (dmesg), the card is failing: copy the data and replace it"
        )
        return [error(DISK, f"{where}: mounted read-only", advice)]
    return [*_judge_access(facts), *_judge_room(facts)] or [good(DISK, f"{where}: {bytes_text(facts.free_bytes)} free")]


def _judge_access(facts: DiskFacts) -> Iterator[Finding]:
    if not facts.may_write:
        yield error(DISK, f"{facts.folder}: not writable by this user", "chown it, or run doctor as the agent's user")
    if facts.foreign_files:
        names = ", ".join(facts.foreign_files[:3])
        advice = f"chown -R --reference={facts.folder} {facts.folder}; the agent was run as another user"
        yield error(DISK, f"{facts.folder}: {names} not owned by the owner of the folder", advice)


def _judge_room(facts: DiskFacts) -> Iterator[Finding]:
    free = bytes_text(facts.free_bytes)
    if facts.free_bytes < FULL_BYTES:
        yield error(DISK, f"{facts.folder}: full, {free} left", FREE_ADVICE)
    elif facts.free_bytes < facts.still_to_come_bytes:
        text = f"{facts.folder}: {free} left, but the journal may grow by {bytes_text(facts.still_to_come_bytes)}"
        yield warning(DISK, text, FREE_ADVICE)
    elif facts.free_bytes < LOW_SHARE * facts.total_bytes:
        yield warning(DISK, f"{facts.folder}: nearly full, {free} left", FREE_ADVICE)
    if facts.inodes_free_share < LOW_INODES:
        advice = "find and remove the many small files"
        yield warning(DISK, f"{facts.folder}: {facts.inodes_free_share:.0%} of the inodes are left", advice)


def gather_journal(config: Config) -> JournalFacts:
    directory = config.journal_directory
    try:
        with open_read_only(directory) as disk:
            return JournalFacts(directory=directory, stats=stats_of(inspect_journal(disk), time.time_ns() // 1_000_000))
    except FileNotFoundError:
        return JournalFacts(directory=directory)
    except OSError as refusal:
        return JournalFacts(directory=directory, problem=error_text(refusal))


def judge_journal(facts: JournalFacts) -> list[Finding]:
    if facts.problem:
        return [
            error(
                JOURNAL,
                f"cannot read the journal: {facts.problem}",
                "run doctor as the agent's user, or check the disk",
            )
        ]
    if facts.stats is None:
        return [good(JOURNAL, f"{facts.directory}: none yet")]
    pending = sum(cursor.depth for cursor in facts.stats.cursors.values())
    return [*_judge_losses(facts.stats), *_judge_forecasts(facts.stats, pending)] or [
        good(JOURNAL, f"{pending} readings pending, {bytes_text(facts.stats.bytes_on_disk)} on disk")
    ]


def _judge_losses(stats: JournalStats) -> Iterator[Finding]:
    if stats.damaged_readings or stats.lost_states:
        advice = (
            "headgate journal verify shows where; copy the records with headgate journal export and replace the card"
        )
        yield error(JOURNAL, f"{stats.damaged_readings} readings were damaged on disk", advice)
    if stats.shed_readings:
        advice = "headgate capacity computes the size needed; raise journal.max_megabytes"
        yield warning(JOURNAL, f"{stats.shed_readings} readings were dropped because the journal was full", advice)


def _judge_forecasts(stats: JournalStats, pending: int) -> Iterator[Finding]:
    if pending and stats.full_in_s is not None and stats.full_in_s < SOON_S:
        advice = "check the links; headgate capacity computes the size needed"
        yield warning(JOURNAL, f"full in {duration_text(stats.full_in_s)} if nothing is published", advice)
    if stats.card_life_s is not None and stats.card_life_s < SHORT_CARD_LIFE_S:
        advice = "raise journal.commit_interval_s, or use a high-endurance card"
        yield warning(JOURNAL, f"the card is worn out in {duration_text(stats.card_life_s)} at this rate", advice)
    ratio = stats.written_per_payload_byte
    if ratio is not None and ratio > WASTEFUL and stats.written_bytes > WORTH_JUDGING_BYTES:
        advice = "raise journal.commit_interval_s or commit_records: fewer and larger writes"
        yield warning(JOURNAL, f"{ratio:.1f} bytes are written for each byte of payload", advice)
