"""The tracker layer: nodes report their status to a tracker, which instructs them to which nodes to connect.

A message is `[version, type, requestId, …]`. A type has the same layout in both versions; version 1 has the types 1 to
6, version 2 has 1, 2, 5, 6 and 7.

The document's examples number the types 1 to 4 as 14 to 17 under version 2, and their status has no request id. They
are read as messages of version 1, and never written.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final

from protocol.errors import Unsupported
from protocol.streamr.checks import (
    FieldError,
    Json,
    UnknownKindError,
    check_count,
    check_fields,
    check_filled_text,
    check_json,
    check_text,
    check_texts,
    refuse,
    shown,
    wire_error,
)
from protocol.streamr.elements import build, read_array, read_code, read_count, read_elements
from protocol.streamr.json_text import decode_json, encode_json

LATEST_TRACKER_VERSION: Final = 2
ERROR_CODES: Final = ("RTC_UNKNOWN_PEER",)


class TrackerType(IntEnum):
    STATUS = 1
    INSTRUCTION = 2
    STORAGE_NODES_REQUEST = 3
    STORAGE_NODES_RESPONSE = 4
    RELAY = 5
    ERROR = 6
    STATUS_ACK = 7


_STREAM: Final = ("request_id", "stream_id", "stream_partition")
_LAYOUTS: Final[dict[TrackerType, tuple[str, ...]]] = {
    TrackerType.STATUS: ("request_id", "status"),
    TrackerType.INSTRUCTION: (*_STREAM, "node_addresses", "counter"),
    TrackerType.STORAGE_NODES_REQUEST: _STREAM,
    TrackerType.STORAGE_NODES_RESPONSE: (*_STREAM, "node_addresses"),
    TrackerType.RELAY: ("request_id", "originator", "target_node", "sub_type", "data"),
    TrackerType.ERROR: ("request_id", "error_code", "target_node"),
    TrackerType.STATUS_ACK: _STREAM,
}
_TYPES_OF_VERSION: Final = {1: frozenset({1, 2, 3, 4, 5, 6}), 2: frozenset({1, 2, 5, 6, 7})}
_TYPES_IN_EXAMPLES: Final = {14: 1, 15: 2, 16: 3, 17: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerMessage:
    """Base of all tracker messages. `version` is the one in which it was read or will be written."""

    type: ClassVar[TrackerType]
    version: int = LATEST_TRACKER_VERSION
    request_id: str

    def __post_init__(self) -> None:
        check_fields(self, _FIELD_CHECKS)
        if self.type not in _TYPES_OF_VERSION[self.version]:
            refuse("version", self.version, f"one that knows type {int(self.type)}")

    def serialize(self, version: int | None = None) -> str:
        """The message as JSON, in its own version or in another.

        Raises: `Unsupported` if that version has no such message.
        """
        version = self.version if version is None else version
        if self.type not in _TYPES_OF_VERSION.get(version, ()):
            raise Unsupported(f"{type(self).__name__} cannot be written as version {version}")
        return encode_json([version, self.type, *(getattr(self, name) for name in _LAYOUTS[self.type])])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMessage(TrackerMessage):
    """The status of a node: any JSON but null."""

    type: ClassVar = TrackerType.STATUS
    status: Json = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionMessage(TrackerMessage):
    """A tracker instructs a node to which nodes to connect for a stream. Later ones have a higher counter."""

    type: ClassVar = TrackerType.INSTRUCTION
    stream_id: str
    stream_partition: int
    node_addresses: tuple[str, ...]  # websocket addresses up to release 7.0, node ids from 7.1 on
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNodesRequest(TrackerMessage):
    type: ClassVar = TrackerType.STORAGE_NODES_REQUEST
    version: int = 1
    stream_id: str
    stream_partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNodesResponse(TrackerMessage):
    type: ClassVar = TrackerType.STORAGE_NODES_RESPONSE
    version: int = 1
    stream_id: str
    stream_partition: int
    node_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayMessage(TrackerMessage):
    """A message from one node to another through the tracker, to connect by WebRTC."""

    type: ClassVar = TrackerType.RELAY
    originator: Json = field(hash=False)
    target_node: str
    sub_type: str
    data: Json = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMessage(TrackerMessage):
    type: ClassVar = TrackerType.ERROR
    error_code: str
    target_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAckMessage(TrackerMessage):
    type: ClassVar = TrackerType.STATUS_ACK
    stream_id: str
    stream_partition: int


_KINDS: Final[dict[TrackerType, type[TrackerMessage]]] = {
    kind.type: kind
    for kind in (
        StatusMessage,
        InstructionMessage,
        StorageNodesRequest,
        StorageNodesResponse,
        RelayMessage,
        ErrorMessage,
        StatusAckMessage,
    )
}


def parse_tracker_message(text: str | bytes, *, documents: bool = False) -> TrackerMessage:
    """Read one tracker message of version 1 or 2.

    With `documents`, forms that only the document shows are read too: a status without request id under its real
    number, a missing partition.

    Raises: `WireError`, with the problem and its place.
    """
    parsed = decode_json(text)
    try:
        return _read(read_array("tracker_message", parsed), documents=documents)
    except FieldError as problem:
        raise wire_error(problem) from None


def _read(elements: list[Any], *, documents: bool) -> TrackerMessage:
    version = read_count(elements[0]) if elements else None
    kind = read_code(elements, 1)
    if version not in (1, 2) or type(version) is not int:
        raise UnknownKindError("version", f"{shown(version)} is not 1 or 2", "[0]")
    if version == 2 and kind in _TYPES_IN_EXAMPLES:
        version, kind, documents = 1, _TYPES_IN_EXAMPLES[kind], True
    if kind not in _TYPES_OF_VERSION[version]:
        raise UnknownKindError("type", f"{shown(kind)} is not a type of version {version}", "[1]")
    return _read_layout(elements, version, TrackerType(kind), documents=documents)


def _read_layout(elements: list[Any], version: int, kind: TrackerType, *, documents: bool) -> TrackerMessage:
    layout = ("version", "type", *_LAYOUTS[kind])
    if documents:
        elements = _completed(elements, layout)
    values = read_elements(elements, layout, _READERS, ())
    del values["type"]
    return build(_KINDS[kind], {**values, "version": version}, layout)


def _completed(elements: list[Any], layout: tuple[str, ...]) -> list[Any]:
    """Add what the document leaves out: the request id of a status, partition 0."""
    if "status" in layout and len(elements) == 3:
        return [*elements[:2], "", elements[2]]
    if "stream_partition" in layout and elements[4:5] in ([], [None]):
        return [*elements[:4], 0, *elements[5:]]
    return elements


def _read_nodes(element: Any) -> tuple[Any, ...]:
    return tuple(read_array("node_addresses", element))


def _check_version(name: str, value: object) -> None:
    if value not in _TYPES_OF_VERSION or type(value) is not int:
        refuse(name, value, "1 or 2")


def _check_present_json(name: str, value: object) -> None:
    if value is None:
        refuse(name, value, "JSON other than null")
    check_json(name, value)


def _check_error_code(name: str, value: object) -> None:
    if value not in ERROR_CODES:
        refuse(name, value, " or ".join(ERROR_CODES))


_READERS: Final = {"stream_partition": read_count, "counter": read_count, "node_addresses": _read_nodes}
_FIELD_CHECKS: Final = {
    "version": _check_version,
    "request_id": check_text,
    "status": _check_present_json,
    "stream_id": check_filled_text,
    "stream_partition": check_count,
    "node_addresses": check_texts,
    "counter": check_count,
    "originator": _check_present_json,
    "target_node": check_filled_text,
    "sub_type": check_filled_text,
    "data": _check_present_json,
    "error_code": _check_error_code,
}
