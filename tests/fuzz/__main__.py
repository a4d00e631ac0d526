"""`python -m tests.fuzz TARGET [libFuzzer options]`; docs of the options: `-help=1`."""

import importlib
import sys
from pathlib import Path

import atheris

ROOMS = ["agent", "drivers", "firmware_bridge", "ingest", "node", "protocol", "runtime"]


def main() -> None:
    program, target, *options = sys.argv
    with atheris.instrument_imports(include=ROOMS):
        module = importlib.import_module(f"tests.fuzz.{target}")
    corpus = Path(".fuzz") / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(module.SEEDS):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([program, *options, str(corpus)], module.fuzz_one)
    atheris.Fuzz()


main()
