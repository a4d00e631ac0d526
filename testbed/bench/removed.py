"""What faults take out of the system, moved aside: the oracle reads it, because nothing else may be missing."""

import shutil
from collections.abc import Iterable
from pathlib import Path


class Removed:
    def __init__(self, folder: Path) -> None:
        self._archives = folder / "archives"
        self._journals = folder / "data"

    def take_archives(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self.copy_archive(path)
            path.unlink()

    def copy_archive(self, path: Path) -> None:
        self._archives.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, self._archives / path.name)

    def take_data(self, data: Path, agent: str) -> None:
        """Take the data directory of an agent that is stopped."""
        place = self._journals / agent
        place.mkdir(parents=True, exist_ok=True)
        shutil.move(data, place / str(len(list(place.iterdir()))))

    def archives(self) -> list[Path]:
        """As they were before."""
        return sorted(self._archives.glob("*.hg[as]"))

    def data_of(self, agent: str) -> list[Path]:
        return sorted((self._journals / agent).glob("*"))
