"""Log entries, checkpoints and answers for tests: fixed keys, a made-up log."""

import hashlib
from typing import Any

from nacl.signing import SigningKey

from protocol.archive.receipt import Receipt, ReceiptStatement, sign_receipt
from protocol.devicelog.answer import AnswerStatement, HeartbeatAnswer, LogStatus, NumberRange, sign_answer
from protocol.devicelog.checkpoint import Checkpoint, CheckpointStatement, LaneState, sign_checkpoint
from protocol.devicelog.entry import LaneRange, LogEntry
from protocol.devicelog.frontier import Frontier
from protocol.devicelog.merkle import EMPTY_ROOT
from protocol.shipping import ClaimStatement, UploadClaim, sign_claim
from tests.support.archives import BINDING, LOG, sign

COLLECTOR = SigningKey(b"c" * 32)
COLLECTOR_KEY = bytes(COLLECTOR.verify_key)


def digest(number: int) -> bytes:
    """The digest of the made-up archive with this number."""
    return hashlib.sha256(b"archive %d" % number).digest()


def frontier(size: int) -> Frontier:
    return Frontier().extend(map(digest, range(size)))


def log_entry(number: int = 0, /, **changes: Any) -> LogEntry:
    """The entry of an archive in the made-up log; each archive covers ten positions of lane 1."""
    fields: dict[str, Any] = {
        "log": LOG,
        "previous_log": b"",
        "number": number,
        "lanes": (LaneRange(1, 0, 10 * number, 10 * number + 10),),
        **changes,
    }
    if "root" not in changes:
        fields["root"] = frontier(number).root
    if "previous" not in changes:
        fields["previous"] = digest(number - 1) if number else b""
    return LogEntry(**fields)


def checkpoint_statement(size: int = 3, /, **changes: Any) -> CheckpointStatement:
    fields: dict[str, Any] = {
        "binding": BINDING,
        "log": LOG,
        "previous_log": b"",
        "size": size,
        "root": frontier(size).root,
        "last": digest(size - 1) if size else b"",
        "lanes": (LaneState(1, 0, 10 * size + 5, 10 * size, 10 * size, 0),),
        "boot": b"b" * 16,
        "made_at_ms": 1_700_000_000_000,
        "agent_version": "1.2.3",
        "configuration": b"f" * 32,
        "waiting": 1,
        "waiting_bytes": 12_345,
    }
    return CheckpointStatement(**{**fields, **changes})


def checkpoint(size: int = 3, /, **changes: Any) -> Checkpoint:
    return sign_checkpoint(checkpoint_statement(size, **changes), sign)


def make_claim(archive: bytes, size_bytes: int = 4096) -> UploadClaim:
    """A claim to the archive with this digest."""
    statement = ClaimStatement(
        binding=BINDING,
        archive=archive,
        size_bytes=size_bytes,
        entry=log_entry(3),
        collector_key=b"c" * 32,
    )
    return sign_claim(statement, sign)


def make_receipt(
    *, archive: bytes, size_bytes: int, device: bytes, key: SigningKey = COLLECTOR, received_at_ms: int = 1
) -> Receipt:
    """A receipt that says nothing about the log."""
    statement = ReceiptStatement(
        archive=archive,
        size_bytes=size_bytes,
        device=device,
        log=LOG,
        number=0,
        held_size=0,
        held_root=EMPTY_ROOT,
        received_at_ms=received_at_ms,
        collector_key=bytes(key.verify_key),
    )
    return sign_receipt(statement, lambda message: key.sign(message).signature)


def answer_statement(**changes: Any) -> AnswerStatement:
    fields: dict[str, Any] = {
        "checkpoint": hashlib.sha256(checkpoint().to_bytes()).digest(),
        "now_ms": 1_700_000_000_500,
        "log": LOG,
        "held_size": 1,
        "held_root": frontier(1).root,
        "missing": (NumberRange(1, 2),),
        "status": LogStatus.OK,
        "collector_key": COLLECTOR_KEY,
    }
    return AnswerStatement(**{**fields, **changes})


def answer(**changes: Any) -> HeartbeatAnswer:
    return sign_answer(answer_statement(**changes), lambda message: COLLECTOR.sign(message).signature)
