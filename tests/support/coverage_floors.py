"""Statement coverage of the packages that lose data when they are wrong, each against its own floor (`make coverage`).

Reads what `pytest --cov` recorded. A floor is what was reached, less a little for randomised tests: raise it with the
coverage, and do not lower it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coverage import Coverage

__all__ = ["FLOORS", "PackageCoverage", "measure"]

ROOT: Final = Path(__file__).parents[2]
FLOORS: Final[Mapping[str, float]] = {"protocol": 98.0, "agent/journal": 97.5, "runtime": 96.0}  # percent


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageCoverage:
    package: str
    floor: float
    statements: int
    missed: int

    @property
    def percent(self) -> float:
        return 100 * (self.statements - self.missed) / self.statements if self.statements else 0.0

    @property
    def is_enough(self) -> bool:
        return self.percent >= self.floor

    def __str__(self) -> str:
        verdict = "" if self.is_enough else "  below the floor: test what `coverage report --show-missing` lists"
        return f"{self.package:<16}{self.percent:6.1f} %  floor {self.floor:g} %{verdict}"


def measure(recorded: Coverage, root: Path, floors: Mapping[str, float]) -> list[PackageCoverage]:
    """Modules that no test imported count as missed."""
    return [_measure_package(recorded, root, package, floor) for package, floor in floors.items()]


def _measure_package(recorded: Coverage, root: Path, package: str, floor: float) -> PackageCoverage:
    statements = missed = 0
    for path in sorted((root / package).rglob("*.py")):
        _, lines, _, missing, _ = recorded.analysis2(str(path))
        statements += len(lines)
        missed += len(missing)
    return PackageCoverage(package=package, floor=floor, statements=statements, missed=missed)


def main() -> int:
    recorded = Coverage()
    recorded.load()
    packages = measure(recorded, ROOT, FLOORS)
    print("statement coverage of the fast tests:", *packages, sep="\n")
    return 0 if all(package.is_enough for package in packages) else 1


if __name__ == "__main__":
    sys.exit(main())
