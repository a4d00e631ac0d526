"""Cut the power of a journal, and fail its disk, for N seconds: `python -m tests.soak.journal --seconds 3600`.

Every life has its own seed, printed when it fails; `--seed N --lives 1` lives it again.
"""

import argparse
import itertools
import sys
import time

from tests.support.journal_history import History
from tests.support.journal_lives import live

CUTS_PER_LIFE = 2000
STEPS_PER_LIFE = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.journal", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="begin no new life after this (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the first life (default: 0)")
    parser.add_argument("--lives", type=int, help="stop after so many")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    cuts = 0
    for life in itertools.count():
        if life == arguments.lives or time.monotonic() - started_s > arguments.seconds:
            print(f"{life} lives, {cuts} power cuts, nothing lost")
            return 0
        cuts += _live(arguments.seed + life)
        print(f"seed {arguments.seed + life}: {cuts} cuts so far", file=sys.stderr)
    return 0


def _live(seed: int) -> int:
    try:
        history = History(seed)
        history.live_until(CUTS_PER_LIFE)
        live(seed, STEPS_PER_LIFE)
    except Exception:
        print(f"seed {seed} failed", file=sys.stderr)
        raise
    return history.cuts


if __name__ == "__main__":
    sys.exit(main())
