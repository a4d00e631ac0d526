"""The command: figures, what could not be taken, and the exit code; never a traceback."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as command
from benchmarks.harness import Figure, NotTaken, Result

HELD = Figure(name="speed", value=2, unit="×", at_least=1)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Result | Exception]:
    """What the benchmark `path` gives, one after the other; an exception is raised."""
    results: list[Result | Exception] = []

    def measure() -> Iterator[Result]:
        for each in results:
            if isinstance(each, Exception):
                raise each
            yield each

    module = ModuleType("benchmarks.of_a_test")
    vars(module)["measure"] = measure
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(command.BENCHMARKS, "path", module.__name__)
    monkeypatch.delenv("CI", raising=False)
    return results


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "path", *arguments])
    return command.main()


def test_a_figure_that_cannot_be_taken_is_in_the_table_with_the_reason(
    measured: list[Result | Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured += [HELD, NotTaken(name="size", reason="not installed:\ncc | gcc")]
    assert run(monkeypatch) == 0
    out, err = capsys.readouterr()
    assert "| speed | 2 × | >= 1 | yes |  |" in out
    assert "| size | not taken | | | not installed: cc \\| gcc |" in out
    assert err.splitlines() == ["1 figures hold, 0 missed, 1 not taken", "1 not taken: not installed: cc | gcc"]
    monkeypatch.setenv("CI", "true")
    assert run(monkeypatch) == 1


def test_a_benchmark_that_fails_leaves_its_figures_and_the_reason(
    measured: list[Result | Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured += [HELD, OSError("no space")]
    assert run(monkeypatch, "--json") == 1
    figure, rest = map(json.loads, capsys.readouterr().out.splitlines())
    assert figure["name"] == "speed"
    assert rest["name"] == "path: the remaining figures"
    assert rest["reason"].startswith("OSError: no space")
    with pytest.raises(OSError, match="no space"):
        run(monkeypatch, "--traceback")


def test_what_is_not_taken_is_written_beside_the_figures(
    measured: list[Result | Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured += [HELD, NotTaken(name="size", reason="no compiler")]
    run(monkeypatch, "--out", str(tmp_path))
    written = json.loads((tmp_path / "figures.json").read_text())
    assert [each["name"] for each in written["figures"]] == ["speed"]
    assert written["not_taken"] == [{"name": "size", "reason": "no compiler", "is_fault": False}]
    assert "| size | not taken |" in (tmp_path / "figures.md").read_text()


def test_missing_packages_are_installed_unless_forbidden(
    measured: list[Result | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    provided: list[object] = []
    monkeypatch.setattr(command, "needs_of", lambda names: {f"needs of {name}" for name in names})
    monkeypatch.setattr(command, "provide", provided.append)
    run(monkeypatch, "--no-install")
    assert provided == []
    run(monkeypatch)
    assert provided == [{"needs of path"}]


def test_a_benchmark_whose_process_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    reason = "its process ended with status 1"
    assert command._run_apart("path") == [NotTaken(name="path: all figures", reason=reason, is_fault=True)]
