"""What travels from the collectors to the keeper."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from agent.routing import Route
from drivers.reading import Reading

__all__ = ["Batch", "nothing_to_do"]


async def nothing_to_do() -> None:
    """For a source that cannot be told."""


class Batch(NamedTuple):
    """Readings of one source. `committed` is awaited once they are on the medium, and not before."""

    source: str  # the driver's name, by which the rules route
    readings: Sequence[Reading]
    route: Route | None = None  # one that no rule chooses: the agent's own events
    committed: Callable[[], Awaitable[None]] = nothing_to_do
    is_lasting: bool = False  # the tokens of these readings mean the same after a restart
