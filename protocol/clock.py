"""What lets others find the true time of a message from a machine whose clock was wrong.

While its clock is not synchronised, a device puts a `ClockContext` into each message: which start of the machine it was
made in, and how long after that start, by a counter that no one sets. Once the clock is synchronised, a signed message
brings a `ClockCorrection`: what the counter and the true time were at one moment. The two together give the time of
every message of that start, however wrong its timestamp was.

A clock that was ahead leaves references ahead of the time. When it is right again, the device ends the chains that are
held there, begins new ones at the present time, and reports that with an `ExcursionNotice`.

All are CBOR in its deterministic form (`protocol/strict_cbor.py`).
"""

from dataclasses import dataclass

from protocol import strict_cbor
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS, Reference
from protocol.strict_cbor import CborBounds, CborValue, field, items

__all__ = [
    "BOOT_ID_BYTES",
    "CORRECTION_INFO_TYPE",
    "EXCURSION_INFO_TYPE",
    "MAX_NAMED_CHAINS",
    "MEDIA_TYPE",
    "ClockContext",
    "ClockCorrection",
    "ExcursionNotice",
]

MEDIA_TYPE = "application/cbor"
CORRECTION_INFO_TYPE = "clock correction"  # how a correction is told from a reading

EXCURSION_INFO_TYPE = "headgate/clock-excursion"

BOOT_ID_BYTES = 16
MAX_NAMED_CHAINS = 32
MAX_CHAIN_BYTES = 1024
_BOUNDS = CborBounds(max_bytes=256, max_items=16, max_depth=1)
_NOTICE_BOUNDS = CborBounds(max_bytes=64 * 1024, max_items=16 + 5 * MAX_NAMED_CHAINS, max_depth=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockContext:
    """When a message was made, without reference to any clock that can be set."""

    boot_id: bytes
    monotonic_ms: int  # since the machine started, sleep included
    is_synchronised: bool

    def __post_init__(self) -> None:
        _check_moment(self.boot_id, self.monotonic_ms)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {"boot": self.boot_id, "monotonic_ms": self.monotonic_ms, "synchronised": self.is_synchronised}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClockContext":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("clock context"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), "boot", "monotonic_ms", "synchronised")
            return cls(
                boot_id=field(found["boot"], bytes),
                monotonic_ms=field(found["monotonic_ms"], int),
                is_synchronised=field(found["synchronised"], bool),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCorrection:
    """What the counter of one start of the machine and the true time were at the same moment.

    Of several for one start the last counts.
    """

    boot_id: bytes
    monotonic_ms: int
    utc_ms: int
    uncertainty_ms: int  # the true time was at most this far from `utc_ms`, as the kernel estimates

    def __post_init__(self) -> None:
        _check_moment(self.boot_id, self.monotonic_ms)
        for name in ("utc_ms", "uncertainty_ms"):
            if not 0 <= getattr(self, name) <= MAX_TIMESTAMP_MS:
                raise ValueError(f"{name} {getattr(self, name)} is not within 0..{MAX_TIMESTAMP_MS}")

    @property
    def offset_ms(self) -> int:
        """True time minus counter: the time at which the machine started."""
        return self.utc_ms - self.monotonic_ms

    def true_time_ms(self, context: ClockContext) -> int:
        """When the message with this context was made. Raises: ValueError if it is of another start of the machine."""
        if context.boot_id != self.boot_id:
            raise ValueError(f"a correction for start {self.boot_id.hex()} says nothing about {context.boot_id.hex()}")
        return context.monotonic_ms + self.offset_ms

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {
                "boot": self.boot_id,
                "monotonic_ms": self.monotonic_ms,
                "utc_ms": self.utc_ms,
                "uncertainty_ms": self.uncertainty_ms,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClockCorrection":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("clock correction"):
            value = strict_cbor.decode(data, _BOUNDS)
            found = strict_cbor.fields(value, "boot", "monotonic_ms", "utc_ms", "uncertainty_ms")
            return cls(
                boot_id=field(found["boot"], bytes),
                monotonic_ms=field(found["monotonic_ms"], int),
                utc_ms=field(found["utc_ms"], int),
                uncertainty_ms=field(found["uncertainty_ms"], int),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcursionNotice:
    """References were ahead of the time; the chains that were held there have ended, and new ones begin at `now_ms`."""

    now_ms: int  # the time at which references go on
    last: Reference  # the latest reference that was given out
    count: int  # of the chains that ended; 0 where they were those of an earlier process
    chains: tuple[tuple[str, Reference], ...] = ()  # up to 32 of them, each with its last reference

    def __post_init__(self) -> None:
        if not 0 <= self.now_ms < self.last.timestamp_ms:
            raise ValueError(f"now_ms {self.now_ms} is not within 0..{self.last.timestamp_ms - 1}")
        if not len(self.chains) <= min(self.count, MAX_NAMED_CHAINS):
            raise ValueError(f"{len(self.chains)} chains named, of {self.count}, at most {MAX_NAMED_CHAINS}")
        for reference in (self.last, *(each for _, each in self.chains)):
            if not (0 <= reference.timestamp_ms <= MAX_TIMESTAMP_MS and 0 <= reference.sequence <= MAX_SEQUENCE):
                raise ValueError(f"reference {reference} is beyond its limits")
        if any(len(chain.encode()) > MAX_CHAIN_BYTES for chain, _ in self.chains):
            raise ValueError(f"a chain's name has more than {MAX_CHAIN_BYTES} bytes")

    def to_bytes(self) -> bytes:
        chains: list[CborValue] = [[chain, *reference] for chain, reference in self.chains]
        return strict_cbor.encode(
            {"now_ms": self.now_ms, "last": list(self.last), "count": self.count, "chains": chains}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "ExcursionNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("excursion notice"):
            found = strict_cbor.fields(strict_cbor.decode(data, _NOTICE_BOUNDS), "now_ms", "last", "count", "chains")
            return cls(
                now_ms=field(found["now_ms"], int),
                last=_reference(*items(found["last"], 2)),
                count=field(found["count"], int),
                chains=tuple(_named(*items(each, 3)) for each in items(found["chains"])),
            )


def _named(chain: CborValue, timestamp_ms: CborValue, sequence: CborValue) -> tuple[str, Reference]:
    return field(chain, str), _reference(timestamp_ms, sequence)


def _reference(timestamp_ms: CborValue, sequence: CborValue) -> Reference:
    return Reference(field(timestamp_ms, int), field(sequence, int))


def _check_moment(boot_id: bytes, monotonic_ms: int) -> None:
    if len(boot_id) != BOOT_ID_BYTES:
        raise ValueError(f"boot_id of {len(boot_id)} bytes, not {BOOT_ID_BYTES}")
    if not 0 <= monotonic_ms <= MAX_TIMESTAMP_MS:
        raise ValueError(f"monotonic_ms {monotonic_ms} is not within 0..{MAX_TIMESTAMP_MS}")
