"""Payloads of frames: one CBOR array in deterministic form, and checks of its fields."""

import re
from collections.abc import Iterable
from typing import ClassVar, Final, Self, TypeVar, cast

import cbor2

from protocol import strict_cbor
from protocol.errors import Corrupt, Truncated
from protocol.link.frame import MAX_PAYLOAD_BYTES, FrameType
from protocol.strict_cbor import CborBounds, CborValue, as_kind, types_of_fields

T = TypeVar("T")

MAX_SAMPLES: Final = 64
MAX_UINT32: Final = 2**32 - 1
MAX_UPTIME_MS: Final = 2**48 - 1

_BOUNDS: Final = CborBounds(max_bytes=MAX_PAYLOAD_BYTES, max_items=3 + 2 * MAX_SAMPLES, max_depth=1)


# A flat array of integers and nulls, each head in its shortest form: the general decoder is given nothing else.
_NUMBERS: Final = re.compile(
    rb"(?:[\x80-\x97]|\x98[\x18-\xff])"
    rb"(?:[\x00-\x17\x20-\x37\xf6]|[\x18\x38][\x18-\xff]|[\x19\x39][^\0].|[\x1a\x3a](?!\0\0)....|[\x1b\x3b](?!\0{4}).{8})*+",
    re.DOTALL,
)
# The array is given to the decoder as the first of two items; the second is a kind that no number is.
_PAIR, _END, _END_VALUE = b"\x82", b"\xf5", True


class LinkMessage:
    """Base of the messages of the link: frozen dataclasses whose payload is an array with one item per field."""

    __slots__ = ()
    KIND: ClassVar[FrameType]
    MAY_GROW: ClassVar = False  # a later version may append items, which this one ignores

    def to_bytes(self) -> bytes:
        return encode(*(getattr(self, name) for name in types_of_fields(type(self))))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt(cls.KIND.name):
            decode_items = decode_at_least if cls.MAY_GROW else decode
            return build(cls, decode_items(data, len(types_of_fields(cls))))


def build(kind: type[T], items: Iterable[CborValue]) -> T:
    """A dataclass from the items of its fields, in their order. Raises: Corrupt, ValueError."""
    kinds = types_of_fields(kind)
    return kind(**{name: as_kind(item, kinds[name]) for name, item in zip(kinds, items, strict=True)})


def encode(*items: CborValue) -> bytes:
    return strict_cbor.encode(list(items))


def decode(data: bytes, count: int | None = None) -> list[CborValue]:
    """The array's items, exactly `count` where that is given. Raises: WireError."""
    return strict_cbor.items(strict_cbor.decode(data, _BOUNDS), count)


def decode_numbers(data: bytes) -> list[int | None]:
    """The same as `decode` for an array of integers and nulls, at a fraction of its cost. Raises: WireError."""
    if len(data) > MAX_PAYLOAD_BYTES or not _NUMBERS.fullmatch(data):
        return [None if item is None else strict_cbor.field(item, int) for item in decode(data)]
    found: list[int | None]
    try:
        found, end = cbor2.loads(_PAIR + data + _END)
    except cbor2.CBORError as error:
        raise Truncated(f"CBOR array ends before its last item: {error}", offset=len(data)) from error
    if end is not _END_VALUE:
        raise Corrupt("more CBOR items than the array has")
    return found


def all_present(numbers: list[int | None]) -> list[int]:
    """Raises: Corrupt where one is null."""
    if None in numbers:
        raise Corrupt("CBOR int is expected, not null")
    return cast("list[int]", numbers)


def decode_at_least(data: bytes, count: int) -> list[CborValue]:
    """The first `count` items; a later version may append others. Raises: WireError."""
    found = decode(data)
    if len(found) < count:
        raise Corrupt(f"CBOR array of {len(found)} items, at least {count} are expected")
    return found[:count]


def check_range(value: object, most: int, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(value, name) <= most:
            raise ValueError(f"{name} {getattr(value, name)} is not within 0..{most}")


def check_length(value: object, length: int, *names: str) -> None:
    for name in names:
        if len(getattr(value, name)) != length:
            raise ValueError(f"{name} of {len(getattr(value, name))} bytes, not {length}")


def check_text(value: object, max_bytes: int, *names: str, least: int = 1) -> None:
    """Check that texts fit a log line or a table: no control characters, `least` to `max_bytes` bytes of UTF-8."""
    for name in names:
        text = getattr(value, name)
        if not least <= len(text.encode(errors="surrogatepass")) <= max_bytes or not text.isprintable():
            raise ValueError(f"{name} {text[:max_bytes]!r} is not {least} to {max_bytes} bytes of printable text")
