"""Space for archives on the disk that the journal fills.

The journal's cap may be larger than what the disk has, and other programs fill disks, too. So the journal adds no file
that would use the last space, and the archiver reserves space for one archive in a file.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.archive.settings import reserve_bytes
from agent.journal import JournalSettings

if TYPE_CHECKING:
    from agent.config.configuration import Config

MAX_SHARE: Final = 8  # of a small disk, no more than this part is left free


def journal_settings(config: "Config") -> JournalSettings:
    """The settings under which the journal leaves space for archives on its disk."""
    settings = config.journal.settings(config.cursors)
    if config.archive is None:
        return settings
    disk = os.statvfs(_existing(config.journal_directory))
    left = min(config.archive.min_free_megabytes << 20, disk.f_blocks * disk.f_frsize // MAX_SHARE)
    return replace(settings, min_free_bytes=left + reserve_bytes(settings))


def journal_space_problems(config: "Config") -> Iterator[str]:
    """A warning if the disk has less than the journal may use."""
    with contextlib.suppress(OSError):
        settings, folder = journal_settings(config), _existing(config.journal_directory)
        disk = os.statvfs(folder)
        used_bytes = 0
        if folder == config.journal_directory:
            used_bytes = sum(entry.stat().st_size for entry in os.scandir(folder))
        has_bytes = max(0, used_bytes + disk.f_bavail * disk.f_frsize - settings.min_free_bytes)
        if has_bytes < settings.max_bytes:
            has = has_bytes >> 20
            yield (
                f"journal.max_megabytes: {config.journal.max_megabytes}, but the disk of {config.journal_directory} "
                f"has only {has} MB for it; set {max(1, has)} or less, or free disk space"
            )


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
