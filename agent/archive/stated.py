"""The last checkpoint, stored before it is sent: after a crash, the journal continues behind its positions."""

from dataclasses import dataclass
from typing import Protocol

from protocol import strict_cbor
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint
from protocol.errors import WireError
from protocol.file_envelope import CHECKSUM_BYTES, FileEnvelope
from protocol.strict_cbor import CborBounds, field

STATED_NAME = "checkpoint.state"
_MAX_BYTES = MAX_CHECKPOINT_BYTES + 1024
_ENVELOPE = FileEnvelope(name="checkpoint state", magic=b"HGCHKP", version=1, max_bytes=_MAX_BYTES)
_BOUNDS = CborBounds(max_bytes=_MAX_BYTES - CHECKSUM_BYTES, max_items=8, max_depth=1)


class _Files(Protocol):
    def names(self) -> list[str]: ...
    def read(self, name: str, offset: int, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Stated:
    journal_id: bytes  # that the checkpoint's positions are of
    checkpoint: Checkpoint

    def to_bytes(self) -> bytes:
        return _ENVELOPE.wrap(
            strict_cbor.encode({"journal": self.journal_id, "checkpoint": self.checkpoint.to_bytes()})
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Stated":
        """Raises: WireError."""
        found = strict_cbor.fields(strict_cbor.decode(_ENVELOPE.unwrap(data), _BOUNDS), "journal", "checkpoint")
        return cls(field(found["journal"], bytes), Checkpoint.from_bytes(field(found["checkpoint"], bytes)))


def read_stated(files: _Files) -> Stated | None:
    """None if there is none, or it is damaged. Raises: OSError."""
    if STATED_NAME not in files.names():
        return None
    try:
        return Stated.from_bytes(files.read(STATED_NAME, 0, _MAX_BYTES))
    except WireError:
        return None
