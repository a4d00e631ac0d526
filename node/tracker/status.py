"""Status messages of nodes: the stream partitions a node is in, and its neighbours there.

The protocol allows any JSON as a status. The releases of the network differ:

| release | form | covers |
|---|---|---|
| up to 22 | `{streams: {"id::0": {inboundNodes, outboundNodes, counter}}}` | everything |
| 23 to 28 | the same with `singleStream: true` | one partition |
| 30 | `{stream: {streamKey: "id::0", inboundNodes, outboundNodes, counter}}` | one partition |
| 32 on | `{streamPart: {id, partition, neighbors, counter}}` | one partition; requires an acknowledgement |

The counter is that of the last instruction that the node followed; -1 says that it leaves the partition. Other members
(`rtts`, `location`, `started`, `extra`) are for monitoring and are not read. A status in another form is ignored,
because the protocol allows any JSON: the example in its documents is the string "status".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from node.streams import MAX_STREAM_ID_BYTES, StreamPart
from protocol.errors import Corrupt

MAX_PARTS: Final = 10_000
MAX_LINKS: Final = 1_000
MAX_NODE_ID_LENGTH: Final = 512
MAX_COUNTER: Final = 2**53 - 1
LEAVES: Final = -1

_SEPARATOR: Final = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """The links of a node in one partition. Releases up to 18 have no counter: their status is always current."""

    linked: frozenset[str] = frozenset()
    counter: int | None = None

    @property
    def leaves(self) -> bool:
        return self.counter == LEAVES


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    parts: Mapping[StreamPart, PartStatus] = field(default_factory=dict)
    is_complete: bool = False  # whether the node is in no other partition
    requires_acknowledgement: bool = False


def read_status(status: Any) -> NodeStatus:
    """Raises: `Corrupt`."""
    match status:
        case {"streamPart": {"id": str() as stream_id, "partition": partition, **entry}}:
            part = _check_part(stream_id, partition)
            return NodeStatus(parts={part: _read_entry(entry, ".streamPart")}, requires_acknowledgement=True)
        case {"stream": {"streamKey": str() as key, **entry}}:
            return NodeStatus(parts={read_part_key(key): _read_entry(entry, ".stream")})
        case {"streams": dict() as streams, **rest}:
            return NodeStatus(parts=_read_streams(streams), is_complete=not rest.get("singleStream"))
        case {"streams": []}:
            return NodeStatus(is_complete=True)
    return NodeStatus()


def write_status(parts: Mapping[StreamPart, PartStatus]) -> dict[str, Any]:
    """The status of a node that is in these partitions and no other, in the form that releases up to 22 read."""
    streams = {
        part_key(part): {
            "inboundNodes": sorted(status.linked),
            "outboundNodes": sorted(status.linked),
            "counter": status.counter or 0,
        }
        for part, status in parts.items()
    }
    return {"streams": streams, "singleStream": False}


def part_key(part: StreamPart) -> str:
    return f"{part.stream_id}{_SEPARATOR}{part.partition}"


def read_part_key(key: str) -> StreamPart:
    """Raises: `Corrupt`. A stream's id may hold the separator; its partition is what follows the last one."""
    stream_id, _, partition = key.rpartition(_SEPARATOR)
    if not (partition.isascii() and partition.isdecimal()) or len(partition) > len(str(MAX_COUNTER)):
        raise Corrupt(f"status: {key[:MAX_NODE_ID_LENGTH]!r} does not end in {_SEPARATOR} and a partition")
    return _check_part(stream_id, int(partition))


def _check_part(stream_id: str, partition: Any) -> StreamPart:
    if not stream_id or len(stream_id.encode(errors="surrogatepass")) > MAX_STREAM_ID_BYTES:
        raise Corrupt(f"status: a stream id must have 1 to {MAX_STREAM_ID_BYTES} bytes")
    if type(partition) is not int or not 0 <= partition <= MAX_COUNTER:
        raise Corrupt("status: a partition must be an integer, 0 or more")
    return StreamPart(stream_id, partition)


def _read_streams(streams: dict[str, Any]) -> dict[StreamPart, PartStatus]:
    if len(streams) > MAX_PARTS:
        raise Corrupt(f"status: {len(streams)} partitions are more than {MAX_PARTS}")
    return {read_part_key(key): _read_entry(entry, f".streams[{key!r}]") for key, entry in streams.items()}


def _read_entry(entry: Any, place: str) -> PartStatus:
    if not isinstance(entry, dict):
        raise Corrupt(f"status: {place} must be an object")
    linked = {
        node
        for member in ("inboundNodes", "outboundNodes", "neighbors")
        for node in _read_nodes(entry.get(member), f"{place}.{member}")
    }
    return PartStatus(linked=frozenset(linked), counter=_read_counter(entry.get("counter"), place))


def _read_nodes(nodes: Any, place: str) -> list[str]:
    if nodes is None:
        return []
    if not isinstance(nodes, list) or len(nodes) > MAX_LINKS:
        raise Corrupt(f"status: {place} must be an array of at most {MAX_LINKS} nodes")
    if not all(isinstance(node, str) and len(node) <= MAX_NODE_ID_LENGTH for node in nodes):
        raise Corrupt(f"status: {place} must hold node ids of at most {MAX_NODE_ID_LENGTH} characters")
    return nodes


def _read_counter(counter: Any, place: str) -> int | None:
    if counter is None:
        return None
    if type(counter) is not int or not LEAVES <= counter <= MAX_COUNTER:
        raise Corrupt(f"status: {place}.counter must be an integer, {LEAVES} or more")
    return counter
