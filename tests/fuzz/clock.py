"""Fuzz what a device says of its clock. `python -m tests.fuzz.clock -runs=100000`"""

import sys

from protocol.clock import ClockContext, ClockCorrection
from protocol.errors import WireError


def fuzz_one(data: bytes) -> None:
    for kind in (ClockContext, ClockCorrection):
        try:
            assert kind.from_bytes(data).to_bytes() == data
        except WireError:
            continue


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
