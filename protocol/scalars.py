"""Scalar readings in ContentData: one CBOR item (RFC 8949) of a kind that a table column can hold.

| kind | in Python |
|---|---|
| integer of at most 64 bits | int |
| half, single or double float | float |
| text, byte string | str, bytes |
| false, true, null | bool, None |

Arrays, maps, tags and indefinite lengths are not scalars. The head is read here, without a general decoder, so that
the cost of hostile input is bounded by its size. The unit is in InfoFormat: `Cel/cbor`.
"""

import struct
from functools import lru_cache
from typing import Final, TypeAlias

import cbor2

from protocol.errors import Corrupt, Truncated, Unsupported

Scalar: TypeAlias = bool | int | float | str | bytes | None

FORMAT_SUFFIX: Final = "/cbor"

_CACHED_FORMATS: Final = 256

_DOUBLE: Final = struct.Struct(">d")
_DOUBLE_ITEM: Final = struct.Struct(">Bd")
_FLOATS: Final = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: _DOUBLE}
_SIMPLE: Final = {20: False, 21: True, 22: None}
_DOUBLE_HEAD: Final = 0xFB
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _FLOAT_OR_SIMPLE = 0, 1, 2, 3, 7


def scalar_format(unit: str) -> str:
    """The InfoFormat of a scalar reading in this unit."""
    return unit + FORMAT_SUFFIX


@lru_cache(maxsize=_CACHED_FORMATS)
def unit_of(info_format: str) -> str | None:
    """The unit of a scalar reading; None for other formats, also `application/cbor`, which is any CBOR."""
    unit, separator, form = info_format.rpartition("/")
    return unit if separator + form == FORMAT_SUFFIX and unit != "application" else None


def encode_scalar(value: Scalar) -> bytes:
    """The shortest lossless form; floats are always doubles, so that all readings of a sensor have one layout."""
    if type(value) is float:
        return _DOUBLE_ITEM.pack(_DOUBLE_HEAD, value)
    if isinstance(value, int) and not -(2**64) <= value < 2**64:
        raise ValueError(f"{value} does not fit 64 bits")
    return cbor2.dumps(value)


def decode_scalar(data: bytes) -> Scalar:
    """Raises: Truncated, Corrupt for anything else than one item, Unsupported for an item that is no scalar."""
    if len(data) == 9 and data[0] == _DOUBLE_HEAD:
        return float(_DOUBLE.unpack_from(data, 1)[0])
    if not data:
        raise Truncated("a CBOR item is expected, and there are no bytes", offset=0)
    major, short = divmod(data[0], 32)
    if major == _FLOAT_OR_SIMPLE:
        return _decode_float_or_simple(data, short)
    argument, end = _decode_argument(data, short)
    if major in (_UNSIGNED, _NEGATIVE):
        _check_end(data, end)
        return argument if major == _UNSIGNED else -1 - argument
    if major in (_BYTES, _TEXT):
        _check_end(data, end + argument)
        return data[end:] if major == _BYTES else _decode_text(data, end)
    raise Unsupported("a CBOR array, map or tag is no scalar", offset=0)


def _decode_float_or_simple(data: bytes, short: int) -> Scalar:
    if short in _SIMPLE:
        _check_end(data, 1)
        return _SIMPLE[short]
    if short not in _FLOATS:
        raise Unsupported(f"CBOR simple value {short} is no scalar", offset=0)
    _check_end(data, 1 + _FLOATS[short].size)
    return float(_FLOATS[short].unpack_from(data, 1)[0])


def _decode_argument(data: bytes, short: int) -> tuple[int, int]:
    """The number in an item's head, and where the head ends."""
    if short < 24:
        return short, 1
    if short > 27:
        raise Unsupported("CBOR of indefinite length or with a reserved head is no scalar", offset=0)
    end = 1 + (1 << (short - 24))
    if len(data) < end:
        raise Truncated("CBOR ends within a head", offset=len(data))
    return int.from_bytes(data[1:end]), end


def _decode_text(data: bytes, start: int) -> str:
    try:
        return data[start:].decode()
    except UnicodeDecodeError as error:
        raise Corrupt("CBOR text is not UTF-8", offset=start + error.start) from None


def _check_end(data: bytes, end: int) -> None:
    if len(data) < end:
        raise Truncated(f"the CBOR item has {end} bytes and ends after {len(data)}", offset=len(data))
    if len(data) > end:
        raise Corrupt(f"{len(data) - end} bytes after the CBOR item", offset=end)
