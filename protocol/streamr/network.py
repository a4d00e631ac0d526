"""The network layer of the first nodes: frames between nodes, and between nodes and trackers.

Real nodes sent objects, `{"version": …, "code": …, "payload": …}`, whose version is that of their software
and is never checked:

| code | message | payload |
|---|---|---|
| 0 | StatusMessage | the status, any JSON |
| 1 | InstructionMessage | `{streamId, streamPartition, nodeAddresses, counter}`, the last from 19.0 on |
| 2 | FindStorageNodesMessage | `{streamId, streamPartition}` |
| 3 | StorageNodesMessage | `{streamId, streamPartition, nodeAddresses}` |
| 4 | WrapperMessage | `{serializedControlLayerPayload}`, a control message as text |

The documents show arrays that no node ever sent, without partition but with the sender: `[version, type, source,
status]`, `[…, streamId, nodeAddresses]`, `[…, streamId]`, `[…, controlLayerPayload]`. They are read too, because they
cannot be confused with anything else, and written only on request.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final

import orjson

from protocol.errors import Unsupported, WireError
from protocol.streamr.checks import (
    FieldError,
    Json,
    UnknownKindError,
    check_count,
    check_fields,
    check_filled_text,
    check_json,
    check_optional_count,
    check_optional_text,
    check_text,
    check_texts,
    shown,
    wire_error,
)
from protocol.streamr.control import ControlMessage, parse_control_message
from protocol.streamr.elements import (
    build,
    read_array,
    read_code,
    read_count,
    read_elements,
    read_members,
)
from protocol.streamr.json_text import decode_json, encode_json
from protocol.streamr.stream_message.codec import read_content

LATEST_NETWORK_VERSION: Final = "19.1.0"


class NetworkType(IntEnum):
    STATUS = 0
    INSTRUCTION = 1
    FIND_STORAGE_NODES = 2
    STORAGE_NODES = 3
    WRAPPER = 4


_STREAM_KEYS: Final = {"streamId": "stream_id", "streamPartition": "stream_partition"}
_PAYLOAD_KEYS: Final[dict[NetworkType, dict[str, str]]] = {
    NetworkType.INSTRUCTION: {**_STREAM_KEYS, "nodeAddresses": "node_addresses", "counter": "counter"},
    NetworkType.FIND_STORAGE_NODES: _STREAM_KEYS,
    NetworkType.STORAGE_NODES: {**_STREAM_KEYS, "nodeAddresses": "node_addresses"},
    NetworkType.WRAPPER: {"serializedControlLayerPayload": "control_layer_payload"},
}
_DOCUMENT_LAYOUTS: Final[dict[NetworkType, tuple[str, ...]]] = {
    NetworkType.STATUS: ("status",),
    NetworkType.INSTRUCTION: ("stream_id", "node_addresses"),
    NetworkType.FIND_STORAGE_NODES: ("stream_id",),
    NetworkType.STORAGE_NODES: ("stream_id", "node_addresses"),
    NetworkType.WRAPPER: ("control_layer_payload",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMessage:
    """Base of all frames. `source` is the sender's id, which only the documents' form has."""

    type: ClassVar[NetworkType]
    version: str = LATEST_NETWORK_VERSION
    source: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, _FIELD_CHECKS)

    def serialize(self, version: str | None = None, *, documents: bool = False) -> str:
        """The frame as JSON: the object that nodes send or, with `documents`, the documents' array.

        Raises: `Unsupported` if the array would lack its source.
        """
        version = self.version if version is None else version
        if documents:
            return encode_json(self._document_elements(version))
        return encode_json({"version": version, "code": self.type, "payload": self._payload()})

    def _payload(self) -> Any:
        members = {key: getattr(self, name) for key, name in _PAYLOAD_KEYS[self.type].items()}
        return {key: member for key, member in members.items() if member is not None}

    def _document_elements(self, version: str) -> list[Any]:
        if self.source is None:
            raise Unsupported(f"{type(self).__name__} cannot be written as the documents do: it has no source")
        return [
            version,
            self.type,
            self.source,
            *(getattr(self, name) for name in _DOCUMENT_LAYOUTS[self.type]),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMessage(NetworkMessage):
    type: ClassVar = NetworkType.STATUS
    status: Json = field(hash=False)

    def _payload(self) -> Any:
        return self.status


@dataclass(frozen=True, slots=True, kw_only=True)
class _AboutStream(NetworkMessage):
    stream_id: str
    stream_partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionMessage(_AboutStream):
    """A tracker instructs a node to which nodes to connect for a stream."""

    type: ClassVar = NetworkType.INSTRUCTION
    node_addresses: tuple[str, ...]
    counter: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindStorageNodesMessage(_AboutStream):
    type: ClassVar = NetworkType.FIND_STORAGE_NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNodesMessage(_AboutStream):
    type: ClassVar = NetworkType.STORAGE_NODES
    node_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperMessage(NetworkMessage):
    """A control message from node to node. Its text is retained, to be forwarded unchanged."""

    type: ClassVar = NetworkType.WRAPPER
    control_layer_payload: str = field(repr=False)  # may hold a session token
    control_message: ControlMessage = field(init=False, compare=False)

    def __post_init__(self) -> None:
        NetworkMessage.__post_init__(self)
        try:
            control_message = parse_control_message(self.control_layer_payload)
        except WireError as problem:
            raise FieldError("control_layer_payload", f"holds no control message: {problem}") from None
        object.__setattr__(self, "control_message", control_message)

    def _document_elements(self, version: str) -> list[Any]:
        *head, _ = NetworkMessage._document_elements(self, version)
        return [*head, orjson.Fragment(self.control_layer_payload)]


_KINDS: Final[dict[NetworkType, type[NetworkMessage]]] = {
    kind.type: kind
    for kind in (
        StatusMessage,
        InstructionMessage,
        FindStorageNodesMessage,
        StorageNodesMessage,
        WrapperMessage,
    )
}


def parse_network_message(text: str | bytes) -> NetworkMessage:
    """Read one frame of the network layer, as real nodes send it or as the documents show it.

    Raises: `WireError`, with the problem and its place.
    """
    parsed = decode_json(text)
    try:
        return _read_object(parsed) if type(parsed) is dict else _read_array(parsed)
    except FieldError as problem:
        raise wire_error(problem) from None


def _read_object(frame: dict[str, Any]) -> NetworkMessage:
    kind = _read_type([frame.get("code")], 0, ".code")
    version, payload = frame.get("version", ""), frame.get("payload")
    if kind is NetworkType.STATUS:
        return build(StatusMessage, {"version": version, "status": payload}, {"payload": "status"})
    if type(payload) is not dict:
        raise FieldError("payload", f"must be an object, not {shown(payload)}", ".payload")
    try:
        values = read_members(payload, _PAYLOAD_KEYS[kind], _READERS, ("stream_partition", "counter"))
        return build(_KINDS[kind], {"version": version, **values}, _PAYLOAD_KEYS[kind])
    except FieldError as problem:
        raise problem.within(".payload") from None


def _read_array(parsed: Any) -> NetworkMessage:
    elements = read_array("network_message", parsed)
    kind = _read_type(elements, 1, "[1]")
    layout = ("version", "type", "source", *_DOCUMENT_LAYOUTS[kind])
    readers = {**_READERS, "control_layer_payload": _read_documented_payload}
    values = read_elements(elements, layout, readers, ())
    del values["type"]
    return build(_KINDS[kind], values, layout)


def _read_documented_payload(element: Any) -> str:
    """The text of the control message. The documents' own example lacks its request id, which is added."""
    text = read_content(element)
    try:
        parse_control_message(text)
    except WireError:
        try:
            return parse_control_message(text, documents=True).serialize()
        except WireError:
            return text  # the constructor reports the problem
    return text


def _read_type(elements: list[Any], index: int, place: str) -> NetworkType:
    code = read_code(elements, index)
    if code not in _DOCUMENT_LAYOUTS:
        raise UnknownKindError("type", f"{shown(code)} is not one of 0 to 4", place)
    return NetworkType(code)


def _read_nodes(element: Any) -> tuple[Any, ...]:
    return tuple(read_array("node_addresses", element))


def _check_status(name: str, value: object) -> None:
    if value is None:
        raise FieldError(name, "is missing or null")
    check_json(name, value)


_READERS: Final = {"stream_partition": read_count, "counter": read_count, "node_addresses": _read_nodes}
_FIELD_CHECKS: Final = {
    "version": check_text,
    "source": check_optional_text,
    "status": _check_status,
    "stream_id": check_filled_text,
    "stream_partition": check_count,
    "node_addresses": check_texts,
    "counter": check_optional_count,
    "control_layer_payload": check_text,
}
