"""Reads the elements of a JSON array or object into the fields of a value, for all layers.

A layout names the fields in the order of the array. The reader of a field, if it has one, converts the element; the
constructor of the value then checks it. Elements after the last field are ignored, as every peer does. Every problem is
reported with its place, `[1][2] timestamp`.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from protocol.streamr.checks import MAX_READABLE_INTEGER, FieldError, refuse
from protocol.streamr.ids import MessageRef

MAX_CODE_DIGITS: Final = 2
MESSAGE_REF_LAYOUT: Final = ("timestamp", "sequence_number")

Layout = tuple[str, ...] | Mapping[str, str]
"""The fields in the order of an array, or by the keys of an object."""
Reader = Callable[[Any], Any]
Value = TypeVar("Value")


def read_elements(
    elements: Sequence[Any], layout: Sequence[str], readers: Mapping[str, Reader], optional: Container[str]
) -> dict[str, Any]:
    """The fields of an array by name. A missing element is left out if it is optional."""
    fields = {}
    for index, (name, element) in enumerate(zip(layout, elements, strict=False)):
        try:
            fields[name] = readers[name](element) if name in readers else element
        except FieldError as problem:
            raise problem.within(f"[{index}]") from None
    for index in range(len(elements), len(layout)):
        if layout[index] not in optional:
            raise FieldError(layout[index], "is missing", f"[{index}]")
    return fields


def read_members(
    members: Mapping[str, Any],
    keys: Mapping[str, str],
    readers: Mapping[str, Reader],
    optional: Container[str],
) -> dict[str, Any]:
    """The fields of an object by name, given the name for each key. Null means absent."""
    fields = {}
    for key, name in keys.items():
        member = members.get(key)
        if member is None and name not in optional:
            raise FieldError(name, "is missing", f".{key}")
        if member is not None:
            try:
                fields[name] = readers[name](member) if name in readers else member
            except FieldError as problem:
                raise problem.within(f".{key}") from None
    return fields


def build(kind: Callable[..., Value], fields: Mapping[str, Any], layout: Layout) -> Value:
    """Construct the value. An invalid field is reported with its place in the layout."""
    try:
        return kind(**fields)
    except FieldError as problem:
        raise problem.within(_place_in(layout, problem.field)) from None


def _place_in(layout: Layout, field: str) -> str:
    """`[1]` in an array, `.key` in an object, "" for a field that has no place of its own."""
    if isinstance(layout, Mapping):
        return next((f".{key}" for key, name in layout.items() if name == field), "")
    return f"[{layout.index(field)}]" if field in layout else ""


def is_falsy(element: Any) -> bool:
    """Whether JavaScript treats it as false, and so as absent: null, false, 0 or an empty string."""
    return not element and type(element) not in (list, dict)


def read_count(element: Any) -> Any:
    """Convert a whole float to an integer: JavaScript has one kind of number, and 2e12 and 0.0 are whole."""
    if type(element) is float and element.is_integer() and abs(element) <= MAX_READABLE_INTEGER:
        return int(element)
    return element


def read_code(elements: Sequence[Any], index: int) -> int | None:
    """The number of a type, or None. Peers look types up by text, so that "9" means 9."""
    element = read_count(elements[index]) if index < len(elements) else None
    if type(element) is str and len(element) <= MAX_CODE_DIGITS and element.isascii() and element.isdecimal():
        return int(element)
    return element if type(element) is int else None


def read_array(field: str, element: Any) -> list[Any]:
    if type(element) is not list:
        refuse(field, element, "an array")
    return element


def read_message_ref(element: Any, *, without_sequence: int | None = None) -> MessageRef:
    """Read a reference. A missing or null sequence number is `without_sequence`; if that is None, it is refused."""
    fields = read_elements(
        read_array("message_ref", element),
        MESSAGE_REF_LAYOUT,
        {"timestamp": read_count, "sequence_number": read_count},
        frozenset() if without_sequence is None else frozenset({"sequence_number"}),
    )
    if without_sequence is not None and fields.get("sequence_number") is None:
        fields["sequence_number"] = without_sequence
    return build(MessageRef, fields, MESSAGE_REF_LAYOUT)


def kind_reader(field: str, kinds: type[IntEnum]) -> Reader:
    """A reader of codes, by number or, as newer JavaScript peers also accept them, by name."""
    by_code: dict[Any, IntEnum] = {int(kind): kind for kind in kinds}
    by_code.update(kinds.__members__)

    def read_kind(element: Any) -> Any:
        kind = by_code.get(element) if type(element) in (int, float, str) else None
        if kind is None:
            refuse(field, element, f"one of {', '.join(str(int(kind)) for kind in kinds)}")
        return kind

    return read_kind
