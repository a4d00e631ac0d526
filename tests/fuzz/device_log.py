"""Any bytes, as a checkpoint, an answer, a log entry or a frontier, give a value with that one encoding or a
`WireError`."""

import contextlib

from protocol import strict_cbor
from protocol.devicelog.answer import HeartbeatAnswer
from protocol.devicelog.checkpoint import Checkpoint
from protocol.devicelog.entry import LogEntry
from protocol.devicelog.frontier import Frontier
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from protocol.strict_cbor import CborBounds
from tests.support.archives import EMPTY_LOG
from tests.support.device_logs import answer, checkpoint, frontier, log_entry

SEEDS = [
    checkpoint().to_bytes(),
    answer().to_bytes(),
    strict_cbor.encode(log_entry(3).to_cbor()),
    strict_cbor.encode(frontier(5).to_cbor()),
    strict_cbor.encode(EMPTY_LOG.append(EMPTY_LOG.entry({1: 5}), bytes(32)).to_cbor()),
]
BOUNDS = CborBounds(max_bytes=4096, max_items=512, max_depth=4)


def fuzz_one(data: bytes) -> None:
    for kind in (Checkpoint, HeartbeatAnswer):
        with contextlib.suppress(WireError):
            assert kind.from_bytes(data).to_bytes() == data
    try:
        value = strict_cbor.decode(data, BOUNDS)
    except WireError:
        return
    for read in (LogEntry.from_cbor, Frontier.from_cbor, LogHead.from_cbor):
        with contextlib.suppress(WireError):
            assert strict_cbor.encode(read(value).to_cbor()) == data
