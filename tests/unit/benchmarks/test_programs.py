"""What benchmarks report where a program is missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import agent_figures, bench_agent, bench_link, bench_streamr
from benchmarks.__main__ import BENCHMARKS
from benchmarks.harness import Figure, NotTaken
from benchmarks.programs import NEEDS, measure_with, needs_of
from tests.support.programs import Need

FIGURE = Figure(name="a", value=1, unit="")
SHELL = Need("sh", "dash")
ABSENT = Need("no-such-program", "no-such-package")


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def reasons(results: Iterator[Figure | NotTaken]) -> dict[str, str]:
    return {each.name: each.reason for each in results if isinstance(each, NotTaken)}


def measured_account() -> agent_figures.Account:
    one = [1.0]
    return agent_figures.Account(
        start_s=one,
        first_signed_s=one,
        start_cpu_s=one,
        per_s=one,
        cpu_us=one,
        sent_bytes=one,
        written_bytes=one,
        resume_s=one,
        drained_per_s=one,
    )


def test_needs_are_those_of_benchmarks_that_exist() -> None:
    assert set(NEEDS) <= set(BENCHMARKS)
    assert needs_of(["path"]) == set()
    assert {need.package for need in needs_of(["agent", "link"])} == {"gcc-arm-none-eabi", "make", "mosquitto", "npm"}


def test_with_its_programs_it_measures() -> None:
    assert list(measure_with([SHELL], ["a", "b"], lambda: [FIGURE])) == [FIGURE]


def test_without_one_each_figure_is_named_with_the_program_and_its_package() -> None:
    results = measure_with([SHELL, ABSENT], ["a", "b"], lambda: [FIGURE])
    assert reasons(results) == dict.fromkeys(["a", "b"], "not installed: no-such-program (package no-such-package)")


@pytest.mark.usefixtures("no_programs")
def test_the_link_without_a_cross_compiler_has_its_other_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.ROUNDS", 1)
    monkeypatch.setattr("benchmarks.harness.ROUND_S", 0.001)
    monkeypatch.setattr(bench_link, "MAX_CHUNKS", 20)
    results = list(bench_link.measure())
    assert sum(isinstance(each, Figure) for each in results) == 5
    assert set(reasons(iter(results))) == {bench_link.LIBRARY_CODE, bench_link.LIBRARY_RAM}


def test_a_library_that_does_not_build_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tmp_path / "make"
    make.write_text("#!/bin/sh\necho no rule for size >&2\nexit 2\n")
    make.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for each in bench_link._library_figures():
        assert each == NotTaken(name=each.name, reason="the library does not build: no rule for size", is_fault=True)


@pytest.mark.usefixtures("no_programs")
def test_the_reference_in_javascript_needs_node() -> None:
    named = reasons(bench_streamr._reference_figures({}))
    assert list(named) == ["StreamMessage " + what for what in bench_streamr.AGAINST_PEER.values()]
    assert set(named.values()) == {"not installed: node (package nodejs), npm (package npm)"}


@pytest.mark.usefixtures("no_programs")
def test_without_mosquitto_every_figure_of_the_agent_is_named() -> None:
    account = measured_account()
    accounts = {kind.name: account for kind in bench_agent.FORWARDERS}
    taken = [each.name for each in agent_figures.figures(accounts, {}, 1.0)]
    assert sorted(reasons(bench_agent.measure())) == sorted(taken)


def test_the_figures_of_a_peer_that_is_missing_are_named() -> None:
    account = measured_account()
    results = agent_figures.figures({"headgate": account}, {"node-red": "no registry"}, 1.0)
    named = reasons(results)
    assert "agent: CPU per reading, × node-red" in named
    assert len(named) == 1 + len(agent_figures.OF_EACH)
