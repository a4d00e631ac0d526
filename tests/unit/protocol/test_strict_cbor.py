import cbor2
import pytest

from protocol import strict_cbor
from protocol.errors import Corrupt, Truncated
from protocol.strict_cbor import CborBounds, CborValue

BOUNDS = CborBounds(max_bytes=4096, max_items=64, max_depth=4)


@pytest.mark.parametrize(
    "value",
    [0, 23, 24, 2**64 - 1, -1, -(2**64), b"", b"\x00" * 300, "", "grün", [], [1, [2, []]], {}, True, False, None],
)
def test_every_permitted_value_survives_the_round_trip(value: CborValue) -> None:
    assert strict_cbor.decode(strict_cbor.encode(value), BOUNDS) == value


def test_maps_are_written_in_one_order_whatever_the_order_they_were_built_in() -> None:
    assert strict_cbor.encode({"b": 1, "aa": 2, "a": 3}) == strict_cbor.encode({"aa": 2, "a": 3, "b": 1})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xc2\x41\x01", "tag"),  # a big number
        (b"\xd8\x1c\x81\xd8\x1d\x00", "tag"),  # a shared reference to itself
        (b"\xf9\x7e\x00", "float"),
        (b"\xfb" + bytes(8), "float"),
        (b"\xf7", "simple value"),  # undefined
        (b"\xf8\xff", "reserved head"),
        (b"\x9f\x01\xff", "indefinite"),
        (b"\x5f\x41a\xff", "indefinite"),
        (b"\xff", "indefinite"),
        (b"\x1c", "indefinite"),  # a reserved length
        (b"\x18\x01", "deterministic"),  # 1 in two bytes
        (b"\xa2\x61a\x01\x61a\x02", "deterministic"),  # a key twice
        (b"\xa2\x61b\x01\x61a\x02", "deterministic"),  # keys out of order
        (b"\xa1\x01\x02", "map key"),
        (b"\xa1\x80\x02", "map key"),
        (b"\x61\xff", "not CBOR"),  # text that is not UTF-8
        (b"\x00\x00", "after"),
        (b"\x81" * 5 + b"\x00", "deeper"),
        (b"\x98\x41" + bytes(65), "items"),
        (bytes(4097), "4096"),
    ],
)
def test_what_has_no_place_is_corrupt_and_says_why(data: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        strict_cbor.decode(data, BOUNDS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x18",
        b"\x42a",
        b"\x81",
        b"\xa1\x61a",
        b"\x5b" + b"\xff" * 8,
        b"\x9b" + b"\xff" * 8,
        b"\xbb" + b"\xff" * 8,
    ],
)
def test_what_ends_early_is_truncated_however_much_it_declares(data: bytes) -> None:
    with pytest.raises(Truncated):
        strict_cbor.decode(data, BOUNDS)


def test_a_hundred_thousand_open_arrays_neither_recurse_nor_crash() -> None:
    with pytest.raises(Corrupt, match="deeper than 4"):
        strict_cbor.decode(b"\x81" * 100_000, CborBounds(max_bytes=200_000, max_items=200_000, max_depth=4))


def test_what_it_writes_is_what_the_library_reads() -> None:
    value: CborValue = {"numbers": [1, -2, 3], "bytes": b"x", "text": "y", "nothing": None}
    assert cbor2.loads(strict_cbor.encode(value)) == value


def test_fields_names_what_is_missing_and_what_is_unknown() -> None:
    with pytest.raises(Corrupt, match=r"missing \['a'\], unknown \['b'\]"):
        strict_cbor.fields({"b": 1}, "a")


def test_true_does_not_pass_for_an_integer() -> None:
    with pytest.raises(Corrupt, match="int is expected, not bool"):
        strict_cbor.field(True, int)
