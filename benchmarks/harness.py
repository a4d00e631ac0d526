"""Measures a figure: CPU time of the candidates in turns, and the minimum of many rounds.

Unlike wall time, this is reliable on a busy machine, because other work only adds time.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 60
ROUND_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `value` must reach `at_least` or stay within `at_most`, where one of them is given."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        reaches = self.at_least is None or self.value >= self.at_least
        return reaches and (self.at_most is None or self.value <= self.at_most)

    @property
    def limit(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTaken:
    """A figure that could not be taken, or, by the name of a benchmark, all those that it had not taken yet."""

    name: str
    reason: str
    is_fault: bool = False  # of the benchmark or of what it measures; otherwise the machine lacks something


Result = Figure | NotTaken


def cpu_seconds_per_call(
    candidates: Mapping[str, Callable[[], object]], of_rounds: Callable[[list[float]], float] = min
) -> dict[str, float]:
    """The minimum CPU time of one call of each, measured in turns, so that other work affects all alike.

    Use the median for `of_rounds` if the other side of a comparison is measured as one long run.
    """
    calls = {name: _calls_per_round(function) for name, function in candidates.items()}
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, function in candidates.items():
            taken[name].append(_time_calls(function, calls[name]))
    return {name: of_rounds(times) for name, times in taken.items()}


def _calls_per_round(function: Callable[[], object]) -> int:
    calls = 1
    while (spent_s := _time_calls(function, calls) * calls) < ROUND_S / 4:
        calls *= 2
    return max(1, round(calls * ROUND_S / spent_s))


def _time_calls(function: Callable[[], object], calls: int) -> float:
    start_s = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - start_s) / calls
