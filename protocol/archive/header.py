"""The first frame of an archive: the device and the journal that it is of."""

from dataclasses import dataclass

from protocol import strict_cbor
from protocol.archive.limits import HEADER_BOUNDS
from protocol.binding import Binding
from protocol.checks import check_length, check_within
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import field

JOURNAL_ID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    binding: Binding
    journal_id: bytes  # positions are only comparable within one journal
    created_at_ms: int  # by the device's clock

    def __post_init__(self) -> None:
        check_within("created_at_ms", self.created_at_ms, 0, MAX_TIMESTAMP_MS)
        check_length("journal_id", self.journal_id, JOURNAL_ID_BYTES)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {**self.binding.to_entries(), "journal": self.journal_id, "created_at_ms": self.created_at_ms}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Header":
        """Raises: WireError, also when the binding is not signed by the device it names."""
        with strict_cbor.invalid_is_corrupt("header"):
            value = strict_cbor.decode(data, HEADER_BOUNDS)
            found = strict_cbor.fields(value, "device", "archive_key", "binding", "journal", "created_at_ms")
            return cls(
                binding=Binding.from_entries(found),
                journal_id=field(found["journal"], bytes),
                created_at_ms=field(found["created_at_ms"], int),
            )
