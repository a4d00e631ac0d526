"""Notices by which the true time of a message is found although the clock of its device was wrong.

While its clock is not synchronised, a device puts a `ClockContext` into each message: the boot in which the message was
made, and the time since that boot by the monotonic clock. Once the clock is synchronised, a signed message carries a
`ClockCorrection`: the monotonic clock and the true time at one moment. The two together give the true time of every
message of that boot, however wrong its timestamp is.

A clock that was ahead leaves references ahead of the present time. When it is synchronised again, the device ends the
chains with such references, begins new chains at the present time, and reports that with an `ExcursionNotice`.

All are deterministic CBOR (`protocol/strict_cbor.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

from protocol import strict_cbor
from protocol.checks import check_length, check_within
from protocol.reference import MAX_TIMESTAMP_MS, Reference, check_reference
from protocol.strict_cbor import CborBounds, CborMap, CborValue, field, items

MEDIA_TYPE = "application/cbor"
CORRECTION_INFO_TYPE = "clock correction"
EXCURSION_INFO_TYPE = "headgate/clock-excursion"

BOOT_ID_BYTES = 16
MAX_NAMED_CHAINS = 32
MAX_CHAIN_BYTES = 1024
_BOUNDS = CborBounds(max_bytes=256, max_items=16, max_depth=1)
_NOTICE_BOUNDS = CborBounds(max_bytes=64 * 1024, max_items=16 + 5 * MAX_NAMED_CHAINS, max_depth=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockContext(CborMap):
    """The time at which a message was made, by a clock that is never set."""

    WHAT = "clock context"
    BOUNDS = _BOUNDS
    KEYS: ClassVar = {"boot_id": "boot", "is_synchronised": "synchronised"}

    boot_id: bytes
    monotonic_ms: int  # since the boot, suspended time included
    is_synchronised: bool

    def __post_init__(self) -> None:
        _check_moment(self.boot_id, self.monotonic_ms)

    def to_bytes(self) -> bytes:
        """By hand what the base class does: it is on the path of every reading."""
        return strict_cbor.encode(
            {"boot": self.boot_id, "monotonic_ms": self.monotonic_ms, "synchronised": self.is_synchronised}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCorrection(CborMap):
    """The monotonic clock of one boot and the true time at the same moment. Of several for one boot the last counts."""

    WHAT = "clock correction"
    BOUNDS = _BOUNDS
    KEYS: ClassVar = {"boot_id": "boot"}

    boot_id: bytes
    monotonic_ms: int
    utc_ms: int
    uncertainty_ms: int  # the kernel's estimate: the true time was at most this far from `utc_ms`

    def __post_init__(self) -> None:
        _check_moment(self.boot_id, self.monotonic_ms)
        check_within("utc_ms", self.utc_ms, 0, MAX_TIMESTAMP_MS)
        check_within("uncertainty_ms", self.uncertainty_ms, 0, MAX_TIMESTAMP_MS)

    @property
    def offset_ms(self) -> int:
        """True time minus monotonic clock: the time of the boot."""
        return self.utc_ms - self.monotonic_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcursionNotice:
    """References were ahead of the present time: their chains have ended, and new ones begin at `now_ms`."""

    now_ms: int  # the first timestamp of the new chains
    last: Reference  # the latest reference that was used
    count: int  # of the chains that ended; 0 if they were those of an earlier process
    chains: tuple[tuple[str, Reference], ...] = ()  # up to 32 of them, each with its last reference

    def __post_init__(self) -> None:
        if not 0 <= self.now_ms < self.last.timestamp_ms:
            raise ValueError(f"now_ms {self.now_ms} is not within 0..{self.last.timestamp_ms - 1}")
        if not len(self.chains) <= min(self.count, MAX_NAMED_CHAINS):
            raise ValueError(f"{len(self.chains)} chains named, of {self.count}, at most {MAX_NAMED_CHAINS}")
        check_reference("last", self.last)
        for _, reference in self.chains:
            check_reference("chain's last", reference)
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
                last=Reference.from_cbor(found["last"]),
                count=field(found["count"], int),
                chains=tuple(_ended_chain(each) for each in items(found["chains"])),
            )


def _ended_chain(value: CborValue) -> tuple[str, Reference]:
    chain, *reference = items(value, 3)
    return field(chain, str), Reference.from_cbor(reference)


def _check_moment(boot_id: bytes, monotonic_ms: int) -> None:
    check_length("boot_id", boot_id, BOOT_ID_BYTES)
    check_within("monotonic_ms", monotonic_ms, 0, MAX_TIMESTAMP_MS)
