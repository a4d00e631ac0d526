"""`make coverage`, of a small program whose executed lines are known."""

from pathlib import Path

import pytest
from coverage import Coverage

from tests.support.coverage_floors import FLOORS, measure

PROGRAM = "def run(x):\n    if x:\n        return 1\n    return 2\n\nrun(1)\n"  # 5 statements
EXECUTED = [1, 2, 3, 6]


@pytest.mark.parametrize(("floor", "is_enough"), [(80, True), (80.1, False)])
def test_a_package_below_its_floor_is_found(tmp_path: Path, floor: float, is_enough: bool) -> None:
    module = tmp_path / "small" / "program.py"
    module.parent.mkdir()
    module.write_text(PROGRAM, encoding="utf-8")
    recorded = Coverage(data_file=None, config_file=False)
    recorded.get_data().add_lines({str(module): EXECUTED})
    (package,) = measure(recorded, tmp_path, {"small": floor})
    assert package.percent == 80
    assert package.is_enough is is_enough
    assert ("below the floor" in str(package)) is not is_enough


def test_a_module_that_no_test_imported_counts_as_missed(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "forgotten.py").write_text(PROGRAM, encoding="utf-8")
    (package,) = measure(Coverage(data_file=None, config_file=False), tmp_path, {"small": 95})
    assert (package.statements, package.missed, package.is_enough) == (5, 5, False)


def test_no_floor_is_below_95_percent() -> None:
    assert min(FLOORS.values()) >= 95
