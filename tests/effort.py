"""How much the randomised and repeated tests do: a little in `make test`, a lot in `make soak`.

Every count of examples, seeds, kills and rounds comes from here, as a pair: what `make test` runs and what one round
of `make soak` runs. Soak rounds also begin at another seed each time (`HEADGATE_SEED`), which the first line of a round
prints: the same seed gives the same round again. `make quick` runs the fast unit, property and attack tests, with fewer
examples.
"""

import os
from typing import Final

__all__ = ["EXAMPLES", "FIRST_SEED", "IS_SOAK", "effort", "seeds"]

LEVEL: Final = os.environ.get("HEADGATE_EFFORT", "test")
IS_SOAK: Final = LEVEL == "soak"
EXAMPLES: Final = {"quick": 8, "test": 30, "soak": 2_000}[LEVEL]  # of each property that names no count of its own
FIRST_SEED: Final = int(os.environ.get("HEADGATE_SEED", "0"))


def effort(test: int, soak: int) -> int:
    """The count for `make test`, or the one for `make soak`."""
    return soak if IS_SOAK else test


def seeds(test: int, soak: int) -> range:
    """So many seeds: always the same in `make test`, others in each round of `make soak`."""
    return range(FIRST_SEED, FIRST_SEED + effort(test, soak))
