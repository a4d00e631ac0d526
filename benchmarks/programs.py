"""The programs from system packages that benchmarks run. `make bench` installs those that are missing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from benchmarks.harness import NotTaken, Result
from tests.support.programs import Need, missing

__all__ = ["MOSQUITTO", "NEEDS", "measure_with", "needs_of"]

MOSQUITTO: Final = Need("mosquitto", "mosquitto")
NPM: Final = Need("npm", "npm")
NEEDS: Final[Mapping[str, Sequence[Need]]] = {
    "agent": (MOSQUITTO, NPM),  # npm installs Node-RED
    "link": (Need("make", "make"), Need("arm-none-eabi-gcc", "gcc-arm-none-eabi")),
    "streamr": (Need("node", "nodejs"), NPM),
}


def needs_of(benchmarks: Iterable[str]) -> set[Need]:
    return {need for name in benchmarks for need in NEEDS.get(name, ())}


def measure_with(
    needs: Iterable[Need], figures: Iterable[str], measure: Callable[[], Iterable[Result]]
) -> Iterator[Result]:
    """The figures that `measure` takes; where a program is missing, each of these names with that reason."""
    if absent := missing(needs):
        reason = f"not installed: {', '.join(map(str, absent))}"
        yield from (NotTaken(name=name, reason=reason) for name in figures)
    else:
        yield from measure()
