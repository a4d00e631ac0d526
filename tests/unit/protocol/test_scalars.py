import math

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.scalars import Scalar, decode_scalar, encode_scalar, scalar_format, unit_of

SCALARS = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-(2**64), 2**64 - 1),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=300),
)


@given(SCALARS)
def test_what_is_encoded_is_decoded(value: Scalar) -> None:
    decoded = decode_scalar(encode_scalar(value))
    assert type(decoded) is type(value)
    assert decoded == value or (isinstance(value, float) and math.isnan(value))


@given(SCALARS)
def test_the_library_reads_what_we_write_and_we_read_what_it_writes(value: Scalar) -> None:
    for data in (encode_scalar(value), cbor2.dumps(value), cbor2.dumps(value, canonical=True)):
        expected = cbor2.loads(data)
        assert decode_scalar(data) == expected or math.isnan(expected)


@given(SCALARS)
def test_every_strict_prefix_is_truncated_and_every_addition_corrupt(value: Scalar) -> None:
    data = encode_scalar(value)
    for end in range(len(data)):
        with pytest.raises(Truncated):
            decode_scalar(data[:end])
    with pytest.raises(Corrupt):
        decode_scalar(data + b"\x00")


@given(st.binary(max_size=40))
def test_any_bytes_give_a_scalar_or_a_wire_error(data: bytes) -> None:
    try:
        decode_scalar(data)
    except WireError:
        return


@pytest.mark.parametrize("value", [[1], {"a": 1}, cbor2.CBORTag(2, b"\x01" * 9), cbor2.undefined])
def test_what_is_no_scalar_is_refused(value: object) -> None:
    with pytest.raises(Unsupported):
        decode_scalar(cbor2.dumps(value))


def test_an_integer_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_scalar(2**64)


def test_the_format_names_the_unit() -> None:
    assert unit_of(scalar_format("Cel")) == "Cel"
    assert unit_of(scalar_format("km/h")) == "km/h"
    assert unit_of("image/jpeg") is None
    assert unit_of("application/cbor") is None
