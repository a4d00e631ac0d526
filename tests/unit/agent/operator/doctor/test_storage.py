import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config.configuration import Config, load_config
from agent.journal import DirectoryDisk, Entry, Journal, JournalStats
from agent.journal.stats import CursorStats
from agent.operator.doctor.finding import Finding, Severity
from agent.operator.doctor.storage import (
    DiskFacts,
    JournalFacts,
    files_not_of,
    gather_disks,
    gather_journal,
    gather_set_aside,
    judge_disk,
    judge_journal,
    judge_set_aside,
)

FOLDER = Path("/data")
ROOMY = DiskFacts(folder=FOLDER, free_bytes=10**10, total_bytes=10**11)
CALM = JournalStats(
    lanes={},
    cursors={"publisher": CursorStats(depth=5, oldest_age_s=1.0)},
    pending_losses=0,
    records=100,
    readings=100,
    commits=10,
    payload_bytes=100_000_000,
    written_bytes=150_000_000,
    shed_readings=0,
    damaged_readings=0,
    torn_tails=0,
    lost_states=0,
    bytes_on_disk=10**6,
    max_bytes=10**9,
    free_bytes=10**9,
    commits_per_s=1.0,
    written_bytes_per_s=100.0,
    card_endurance_bytes=None,
)


def _config(folder: Path) -> Config:
    path = folder / "headgate.toml"
    path.write_text('[device]\nname = "bench"\ndata_directory = "data"\n[archive]\n')
    return load_config(path)


def test_archives_of_a_forked_log_that_were_set_aside_are_named(tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert judge_set_aside(gather_set_aside(config)) == []
    config.archive_directory.mkdir(parents=True)
    (config.archive_directory / "ab.hga.forked").touch()
    (config.archive_directory / "cd.hga").touch()
    [finding] = judge_set_aside(gather_set_aside(config))
    assert finding.severity is Severity.WARNING
    assert finding.text == "1 archives of a forked log were set aside: ab.hga.forked"


def _severities(findings: list[Finding]) -> list[Severity]:
    return [finding.severity for finding in findings]


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (replace(ROOMY, problem="Input/output error"), Severity.ERROR, "Input/output error"),
        (replace(ROOMY, is_read_only=True), Severity.ERROR, "read-only"),
        (replace(ROOMY, may_write=False), Severity.ERROR, "not writable"),
        (replace(ROOMY, foreign_files=("journal",)), Severity.ERROR, "not owned"),
        (replace(ROOMY, free_bytes=1_000_000), Severity.ERROR, "full"),
        (replace(ROOMY, free_bytes=4 * 10**9), Severity.WARNING, "nearly full"),
        (replace(ROOMY, still_to_come_bytes=2 * 10**10), Severity.WARNING, "may grow by"),
        (replace(ROOMY, inodes_free_share=0.01), Severity.WARNING, "inodes"),
        (ROOMY, Severity.OK, "free"),
    ],
)
def test_a_disk_is_judged(facts: DiskFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_disk(facts)
    assert finding.severity is severity
    assert word in finding.text


@pytest.mark.parametrize(
    ("stats", "severity", "word"),
    [
        (CALM, Severity.OK, "5 readings pending"),
        (replace(CALM, damaged_readings=3), Severity.ERROR, "3 readings were damaged"),
        (replace(CALM, shed_readings=3), Severity.WARNING, "were dropped"),
        (replace(CALM, written_bytes_per_s=10**6), Severity.WARNING, "full in"),
        (replace(CALM, card_endurance_bytes=2 * 10**8, written_bytes_per_s=10.0), Severity.WARNING, "worn out"),
        (replace(CALM, written_bytes=600_000_000), Severity.WARNING, "6.0 bytes are written"),
    ],
)
def test_a_journal_is_judged(stats: JournalStats, severity: Severity, word: str) -> None:
    (finding,) = judge_journal(JournalFacts(directory=FOLDER, stats=stats))
    assert finding.severity is severity
    assert word in finding.text


def test_no_journal_yet_is_fine_and_one_that_cannot_be_read_is_not() -> None:
    assert _severities(judge_journal(JournalFacts(directory=FOLDER))) == [Severity.OK]
    assert _severities(judge_journal(JournalFacts(directory=FOLDER, problem="no"))) == [Severity.ERROR]


def test_folders_that_are_not_there_yet_are_judged_by_the_one_above_and_not_made(tmp_path: Path) -> None:
    facts = gather_disks(_config(tmp_path))
    assert [each.folder.name for each in facts] == ["data", "journal", "archives"]
    assert all(each.total_bytes and not each.problem for each in facts)
    assert not (tmp_path / "data").exists()


def test_files_of_another_user_are_found(tmp_path: Path) -> None:
    (tmp_path / "strange").touch()
    assert list(files_not_of(os.geteuid() + 1, tmp_path)) == ["strange"]
    assert list(files_not_of(os.geteuid(), tmp_path)) == []


def test_a_journal_is_looked_at_while_another_process_would_write_to_it(tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert gather_journal(config).stats is None
    settings = config.journal.settings(config.cursors)
    journal = Journal(DirectoryDisk(config.journal_directory), settings, new_journal_id=7, now_ms=0)
    journal.append_many(4, [Entry(chain="c", timestamp_ms=1, sequence=0, payload=b"x")])
    journal.commit(0)
    stats = gather_journal(config).stats
    assert stats is not None
    assert stats.cursors["archive"].depth == 1
    journal.close(0)
