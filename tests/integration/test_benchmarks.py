"""Benchmarks run to their end, at their smallest. Whether limits hold is for `make bench` to say."""

import importlib
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.harness import Figure

SMALLEST = {
    "archive": {"RECORDS": 100},
    "collector": {"ROUNDS": 1, "TEXTS": 2},
    "node": {"PUBLISHED": 50, "SUBSCRIBERS": 2, "RESENT": 10_000, "IDLE_CONNECTIONS": 2},
    "page": {},
    "path": {"BATCH": 25},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_takes_its_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(BENCHMARKS[name])
    for setting, value in SMALLEST[name].items():
        monkeypatch.setattr(module, setting, value)
    monkeypatch.setattr("benchmarks.harness.ROUNDS", 1)
    monkeypatch.setattr("benchmarks.harness.ROUND_S", 0.001)
    monkeypatch.chdir(tmp_path)
    figures = list(module.measure())
    assert figures
    assert all(isinstance(figure, Figure) for figure in figures)
