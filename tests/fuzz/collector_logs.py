"""Any bytes, as the state of a log or a leaf, give a value with that one encoding or a `WireError`."""

import contextlib

from ingest.collector.leaves import Leaf
from ingest.collector.log_state import ENVELOPE, Contradiction, HeldRange, LogState, Subject
from protocol.errors import WireError
from tests.support.archives import LOG
from tests.support.device_logs import digest, frontier

_STATE = LogState(
    log=LOG,
    previous_log=b"p" * 16,
    first_contact_ms=1,
    frontier=frontier(3),
    held=(HeldRange(0, 3, b"", {1: 0}, {1: 30}), HeldRange(5, 6, digest(4), {1: 50, 2: 1}, {1: 60, 2: 3})),
    begins={1: 0, 2: 0},
    received=8,
).with_fork(Contradiction(Subject.ROOT, 2, digest(1), digest(2)), 3)
SEEDS = [_STATE.to_bytes(), ENVELOPE.unwrap(_STATE.to_bytes()), Leaf(digest(1), digest(2)).to_bytes()]


def fuzz_one(data: bytes) -> None:
    for read in (LogState.from_bytes, _from_body, Leaf.from_bytes):
        with contextlib.suppress(WireError):
            assert data in ((value := read(data)).to_bytes(), _body(value))


def _from_body(data: bytes) -> LogState:
    return LogState.from_bytes(ENVELOPE.wrap(data))  # a fuzzer finds no checksum by itself


def _body(value: LogState | Leaf) -> bytes:
    return ENVELOPE.unwrap(value.to_bytes()) if isinstance(value, LogState) else b""
