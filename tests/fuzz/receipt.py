"""Fuzz the receipt decoder and the strict CBOR under it. `python -m tests.fuzz.receipt -runs=100000`"""

import sys

from protocol import strict_cbor
from protocol.archive import Header, Receipt
from protocol.errors import WireError
from protocol.strict_cbor import CborBounds

BOUNDS = CborBounds(max_bytes=4096, max_items=256, max_depth=8)


def fuzz_one(data: bytes) -> None:
    for decode_and_encode in (_receipt, _header, _cbor):
        try:
            assert decode_and_encode(data) == data
        except WireError:
            continue


def _receipt(data: bytes) -> bytes:
    return Receipt.from_bytes(data).to_bytes()


def _header(data: bytes) -> bytes:
    return Header.from_bytes(data).to_bytes()


def _cbor(data: bytes) -> bytes:
    return strict_cbor.encode(strict_cbor.decode(data, BOUNDS))


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
