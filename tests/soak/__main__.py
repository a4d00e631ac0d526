"""Runs the whole suite with large counts, round after round, for as long as reported: `make soak MINUTES=600`.

Each round has its own seed, which is printed; `make soak SEED=N` begins with that round. When the time is up, what is
running is stopped and counts as skipped. The first round that fails is the last.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

MAX_SEED: Final = 10**9
NO_TESTS_RAN: Final = 5  # the exit code of pytest when the time was up before the first test


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="stop after this (default: 60)")
    parser.add_argument("--seed", type=int, help="of the first round (default: a random one)")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    ends_at_s = time.time() + 60 * arguments.minutes
    seed = secrets.randbelow(MAX_SEED) if arguments.seed is None else arguments.seed
    rounds = 0
    while time.time() < ends_at_s:
        rounds += 1
        print(f"round {rounds}; seed {seed}; again: make soak SEED={seed}", flush=True)
        if code := _run_round(arguments.pytest, seed, ends_at_s):
            print(f"round {rounds} failed; seed {seed}; again: make soak SEED={seed}")
            return code
        seed = secrets.randbelow(MAX_SEED)
    print(f"{rounds} rounds, nothing failed")
    return 0


def _run_round(arguments: Sequence[str], seed: int, ends_at_s: float) -> int:
    environment = {
        **os.environ,
        "HEADGATE_EFFORT": "soak",
        "HEADGATE_SEED": str(seed),
        "HEADGATE_SOAK_ENDS_AT_S": str(ends_at_s),
    }
    done = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False)
    return 0 if done.returncode == NO_TESTS_RAN else done.returncode


if __name__ == "__main__":
    sys.exit(main())
