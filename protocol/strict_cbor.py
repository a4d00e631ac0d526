"""Deterministic CBOR (RFC 8949 §4.2.1), for data that is signed or hashed, or comes from an untrusted source.

The subset: integers of at most 64 bits, byte and text strings, arrays, maps with text keys, false, true and null. Tags,
floats, undefined values and indefinite lengths are refused. Each of them is a second way to write the same value, and
most of them let small input build large values in a general decoder (shared references, big numbers, regular
expressions).

cbor2 decodes. Before it runs, the heads of all items are checked here, without recursion, so that it is given only
input whose depth, item count and lengths are within bounds.
"""

import dataclasses
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

import cbor2

from protocol.errors import Corrupt, Truncated, WireError

CborValue: TypeAlias = "bool | int | bytes | str | list[CborValue] | dict[str, CborValue] | None"
T = TypeVar("T")

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)
_NAMES = ("integer", "integer", "byte string", "text", "array", "map", "tag", "simple value")
_FALSE_TRUE_NULL = (20, 21, 22)


class CborBounds(NamedTuple):
    """The largest input that a decoder accepts."""

    max_bytes: int
    max_items: int
    max_depth: int


def encode(value: CborValue) -> bytes:
    """Write `value`; anything in it with a method `to_cbor` is written as what that returns."""
    return cbor2.dumps(value, canonical=True, default=_encode_other)


def _encode_other(encoder: Any, value: Any) -> None:
    encoder.encode(value.to_cbor())


def decode(data: bytes, bounds: CborBounds) -> CborValue:
    """Decode `data`, which is exactly one item.

    Raises: Truncated if more bytes could complete it, Corrupt for anything else than one item in deterministic form.
    """
    if len(data) > bounds.max_bytes:
        raise Corrupt(f"{len(data)} bytes of CBOR, more than the {bounds.max_bytes} allowed")
    _check_heads(data, bounds)
    try:
        value: CborValue = cbor2.loads(data)
    except cbor2.CBORError as error:
        raise Corrupt(f"not CBOR: {error}") from error
    if encode(value) != data:
        raise Corrupt("CBOR is not in its deterministic form")
    return value


def _check_heads(data: bytes, bounds: CborBounds) -> None:
    """Check the head of every item once, with a stack of the open containers. Raises: Truncated, Corrupt."""
    open_containers = [[1, False]]  # items still to come, whether it is a map
    offset = items_seen = 0
    while open_containers:
        container = open_containers[-1]
        if container[0] == 0:
            open_containers.pop()
            continue
        start = offset
        major, argument, offset = _head(data, start)
        items_seen += 1
        if items_seen > bounds.max_items:
            raise Corrupt(f"more than {bounds.max_items} CBOR items", offset=start)
        if container[1] and container[0] % 2 == 0 and major != TEXT:
            raise Corrupt(f"a map key is {_NAMES[major]}, not text", offset=start)
        container[0] -= 1
        if major in (BYTES, TEXT):
            offset += argument
        elif major in (ARRAY, MAP):
            if len(open_containers) > bounds.max_depth:
                raise Corrupt(f"CBOR nested deeper than {bounds.max_depth}", offset=start)
            open_containers.append([argument * (major - ARRAY + 1), major == MAP])
        elif major == TAG or (major == SIMPLE and argument not in _FALSE_TRUE_NULL):
            raise Corrupt(f"CBOR {_NAMES[major]} {argument} is not allowed here", offset=start)
        if offset > len(data):
            raise Truncated(f"CBOR {_NAMES[major]} of {argument} bytes runs past the end", offset=start)
    if offset != len(data):
        raise Corrupt(f"{len(data) - offset} bytes after the CBOR item", offset=offset)


def _head(data: bytes, offset: int) -> tuple[int, int, int]:
    """Major type, argument, and the offset behind the head."""
    if offset >= len(data):
        raise Truncated("CBOR ends before its last item", offset=offset)
    major, short = divmod(data[offset], 32)
    offset += 1
    if short < 24:
        return major, short, offset
    if short > 27 or major == SIMPLE:
        raise Corrupt("CBOR of indefinite length, a float or a reserved head is not allowed here", offset=offset - 1)
    end = offset + (1 << (short - 24))
    if end > len(data):
        raise Truncated("CBOR ends within a head", offset=offset)
    return major, int.from_bytes(data[offset:end], "big"), end


def fields(value: CborValue, *names: str) -> dict[str, CborValue]:
    """`value` as a map of exactly these names."""
    if not isinstance(value, dict):
        raise Corrupt("a CBOR map is expected")
    if value.keys() != set(names):
        missing, unknown = sorted(set(names) - value.keys()), sorted(value.keys() - set(names))
        raise Corrupt(f"CBOR map: missing {missing}, unknown {[name[:32] for name in unknown[:8]]}")
    return value


def items(value: CborValue, count: int | None = None) -> list[CborValue]:
    """`value` as an array, of exactly `count` items where that is given."""
    if not isinstance(value, list):
        raise Corrupt("a CBOR array is expected")
    if count is not None and len(value) != count:
        raise Corrupt(f"CBOR array of {len(value)} items, {count} are expected")
    return value


def field(value: CborValue, kind: type[T]) -> T:
    """`value` as `kind`; true and false do not pass for integers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Corrupt(f"CBOR {getattr(kind, '__name__', kind)} is expected, not {type(value).__name__}")
    return value


class invalid_is_corrupt:  # noqa: N801 - stands in a with statement, as `contextlib.suppress` does
    """Turn the ValueError of a value's constructor into `Corrupt`, with what was being decoded in front of the problem.

    A class, not a generator: it is on the path of every message, and costs a fifth of one.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        if isinstance(error, WireError):
            raise type(error)(f"{self._what}: {error.problem}", offset=error.offset) from error
        if isinstance(error, ValueError):
            raise Corrupt(f"{self._what}: {error}") from error


class CborMap:
    """Base of frozen dataclasses that are written as a CBOR map with one entry per field.

    A field is an integer, a boolean, a text, bytes, or a value with `to_cbor` and `from_cbor`.
    """

    __slots__ = ()
    WHAT: ClassVar[str]  # names the value in errors
    BOUNDS: ClassVar[CborBounds]
    KEYS: ClassVar[Mapping[str, str]] = MappingProxyType({})  # of the fields whose key is not their name

    def to_bytes(self) -> bytes:
        return encode({self.KEYS.get(name, name): getattr(self, name) for name in types_of_fields(type(self))})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises: WireError."""
        with invalid_is_corrupt(cls.WHAT):
            keys, kinds = cls.KEYS, types_of_fields(cls)
            found = fields(decode(data, cls.BOUNDS), *(keys.get(name, name) for name in kinds))
            return cls(**{name: as_kind(found[keys.get(name, name)], kind) for name, kind in kinds.items()})


def types_of_fields(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by name, in their order."""
    known = _TYPES_OF_FIELDS.get(kind)
    if known is None:
        known = _TYPES_OF_FIELDS[kind] = {each.name: each.type for each in dataclasses.fields(kind)}
    return known


def as_kind(value: CborValue, kind: Any) -> Any:
    """`value` as the type of a field. Raises: Corrupt; ValueError for a number that an enumeration does not have."""
    if type(value) is kind:  # as nearly all are
        return value
    if hasattr(kind, "from_cbor"):
        return kind.from_cbor(value)
    if isinstance(kind, type) and issubclass(kind, IntEnum | IntFlag):
        return kind(field(value, int))
    return field(value, kind)


_TYPES_OF_FIELDS: dict[type, dict[str, Any]] = {}
