"""Message dialects between nodes and trackers: the two forms of real networks, behind one interface.

| dialect | to a tracker | from node to node | where |
|---|---|---|---|
| `Plain` | tracker messages, version 1 or 2 | control messages, version 2 | `/ws`, since release 20 |
| `NetworkLayer` | frames of codes 0 to 3 | control messages within frames of code 4 | `/network/ws`, up to release 19 |

A dialect belongs to one connection, because it writes in the version of the peer, and in the documented form of frames
if the peer uses that form.
"""

from typing import Any, Final, Protocol

from node.serialization import Broadcast
from protocol.errors import Unsupported
from protocol.streamr import network, tracker
from protocol.streamr.control import BroadcastMessage, ControlMessage, parse_control_message
from protocol.streamr.network import NetworkMessage, WrapperMessage, parse_network_message
from protocol.streamr.tracker import TrackerMessage, parse_tracker_message

PLAIN_PATH: Final = ""
NETWORK_LAYER_PATH: Final = "/network"

_FIRST_TRACKER_VERSION: Final = 1
_FIRST_CONTROL_VERSION_WITH_32: Final = 2  # a peer of version 1 reads stream messages up to 31
_STREAM_VERSION_BESIDE_CONTROL_1: Final = 31


class Dialect(Protocol):
    """Reading raises `WireError`. Writing raises `Unsupported` if the peer's version has no form for the message."""

    def read_tracker(self, text: str | bytes) -> TrackerMessage: ...
    def write_tracker(self, message: TrackerMessage) -> str: ...
    def read_control(self, text: str | bytes) -> ControlMessage: ...
    def write_control(self, message: ControlMessage) -> str: ...
    def write_broadcast(self, broadcast: Broadcast) -> str: ...


class Plain:
    def read_tracker(self, text: str | bytes) -> TrackerMessage:
        return parse_tracker_message(text)

    def write_tracker(self, message: TrackerMessage) -> str:
        return message.serialize()

    def read_control(self, text: str | bytes) -> ControlMessage:
        return parse_control_message(text)

    def write_control(self, message: ControlMessage) -> str:
        return message.serialize()

    def write_broadcast(self, broadcast: Broadcast) -> str:
        return broadcast.control_text


class NetworkLayer:
    def __init__(self, own_id: str) -> None:
        self._own_id = own_id
        self._writes_as_documents = False
        self._control_version: int | None = None  # the highest that the peer has used; None: it has sent nothing yet

    def read_tracker(self, text: str | bytes) -> TrackerMessage:
        return _as_tracker_message(self._read(text))

    def write_tracker(self, message: TrackerMessage) -> str:
        return self._write(_as_network_message(message, self._own_id))

    def read_control(self, text: str | bytes) -> ControlMessage:
        frame = self._read(text)
        if not isinstance(frame, WrapperMessage):
            raise Unsupported(f"{type(frame).__name__} is not a message between nodes")
        used = min(frame.control_message.version or 1, _FIRST_CONTROL_VERSION_WITH_32)
        self._control_version = max(self._control_version or 0, used)
        return frame.control_message

    def write_control(self, message: ControlMessage) -> str:
        return self._wrap(message.serialize(self._control_version or _FIRST_CONTROL_VERSION_WITH_32))

    def write_broadcast(self, broadcast: Broadcast) -> str:
        """For a peer that has sent nothing yet, in the form that all releases read, if the message has one."""
        if self._control_version == _FIRST_CONTROL_VERSION_WITH_32:
            return self._wrap(broadcast.control_text)
        message = BroadcastMessage(stream_message=broadcast.message)
        stream_version = min(broadcast.message.version, _STREAM_VERSION_BESIDE_CONTROL_1)
        try:
            return self._wrap(message.serialize(self._control_version or 1, stream_version=stream_version))
        except Unsupported:
            if self._control_version is not None:
                raise
            return self._wrap(broadcast.control_text)

    def _read(self, text: str | bytes) -> NetworkMessage:
        frame = parse_network_message(text)
        self._writes_as_documents = frame.source is not None
        return frame

    def _wrap(self, payload: str) -> str:
        return self._write(WrapperMessage(source=self._own_id, control_layer_payload=payload))

    def _write(self, frame: NetworkMessage) -> str:
        return frame.serialize(documents=self._writes_as_documents)


_STREAM: Final = ("stream_id", "stream_partition")
_COMMON_FIELDS: Final[dict[tuple[type[Any], type[Any]], tuple[str, ...]]] = {
    (network.StatusMessage, tracker.StatusMessage): ("status",),
    (network.FindStorageNodesMessage, tracker.StorageNodesRequest): _STREAM,
    (network.InstructionMessage, tracker.InstructionMessage): (*_STREAM, "node_addresses", "counter"),
    (network.StorageNodesMessage, tracker.StorageNodesResponse): (*_STREAM, "node_addresses"),
}
"""The frames of the network layer and the tracker messages with the same meaning, and their fields."""


def _as_tracker_message(frame: NetworkMessage) -> TrackerMessage:
    """Raises: `Unsupported`."""
    for (kind, target), names in _COMMON_FIELDS.items():
        if isinstance(frame, kind):
            values = {name: getattr(frame, name) for name in names}
            if "counter" in values:
                values["counter"] = values["counter"] or 0
            message: TrackerMessage = target(version=_FIRST_TRACKER_VERSION, request_id="", **values)
            return message
    raise Unsupported(f"{type(frame).__name__} is not a message between nodes and trackers")


def _as_network_message(message: TrackerMessage, source: str) -> NetworkMessage:
    """Raises: `Unsupported`."""
    for (target, kind), names in _COMMON_FIELDS.items():
        if isinstance(message, kind):
            frame: NetworkMessage = target(source=source, **{name: getattr(message, name) for name in names})
            return frame
    raise Unsupported(f"{type(message).__name__} cannot be written in the network layer")
