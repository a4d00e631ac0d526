import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.archive.settings import reserve_bytes
from agent.config.configuration import Config, load_config
from agent.config.disk_space import journal_settings, journal_space_problems

CONFIG = """
[device]
name = "bench"
data_directory = "data"
[drivers.boiler]
driver = "simulated"
signals = [{ quantity = "temperature", kind = "walk" }]
[journal]
max_megabytes = 512
"""


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], Config]:
    def load(more: str) -> Config:
        (tmp_path / "headgate.toml").write_text(CONFIG + more)
        return load_config(tmp_path / "headgate.toml")

    return load


def _disk_of(free_megabytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs("/")
    blocks = free_megabytes << 8
    values = (4096, 4096, 4 * blocks, blocks, blocks, *tuple(real)[5:])
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(values))


def test_a_cap_above_what_the_disk_has_is_a_warning_with_what_to_set(
    config: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    _disk_of(100, monkeypatch)
    [problem] = journal_space_problems(config(""))
    assert problem.startswith("journal.max_megabytes: 512, but the disk of ")
    assert "has only 100 MB for it" in problem
    _disk_of(600, monkeypatch)
    assert list(journal_space_problems(config(""))) == []


def test_with_archives_the_journal_leaves_space_for_one_and_for_what_is_to_be_left_free(
    config: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    _disk_of(1000, monkeypatch)
    assert journal_settings(config("")).min_free_bytes == 0
    settings = journal_settings(config("[archive]\nmin_free_megabytes = 64\n"))
    assert settings.min_free_bytes == reserve_bytes(settings) + (64 << 20)
    assert reserve_bytes(settings) >= 4 * settings.max_payload_bytes


def test_of_a_small_disk_no_more_than_a_part_is_left_free(
    config: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    _disk_of(20, monkeypatch)
    settings = journal_settings(config("[archive]\n"))
    assert settings.min_free_bytes == reserve_bytes(settings) + (80 << 20) // 8
