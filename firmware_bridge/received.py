"""Tracks which records were received, which of their samples were delivered, and which are durable. Pure.

(device, boot id, rseq) identifies a record for ever, and with the number of the sample within it, a sample. That name,
as one number, is the token by which a sample is acknowledged; it means the same in every process. The device sends
records in order, from the oldest that it does not know to be durable, so per boot it is enough to store the
highest record, and what below it is not durable yet.
"""

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Final, NamedTuple

from protocol.link import Record

MAX_BOOTS: Final = 8  # tracked at a time; older boots send nothing more
MAX_OPEN_RECORDS: Final = 1024  # delivered and not durable; at this limit the device waits
_DEVICE_BYTES: Final = 8
_NAME: Final = struct.Struct(">8s8sIB")
_SAMPLE_BITS: Final = 8  # the last of a name: the tokens of a record differ only in them
_SAMPLE_MASK: Final = (1 << _SAMPLE_BITS) - 1


class Boot(NamedTuple):
    """One boot of one device."""

    device: bytes  # a digest of its id
    boot_id: bytes

    @classmethod
    def of(cls, device_id: str, boot_id: bytes) -> "Boot":
        return cls(hashlib.blake2s(device_id.encode(), digest_size=_DEVICE_BYTES).digest(), boot_id)


class SampleName(NamedTuple):
    """The meaning of a token. Tokens of one boot rise as its samples do."""

    boot: Boot
    rseq: int
    sample: int

    @property
    def token(self) -> int:
        return int.from_bytes(_NAME.pack(*self.boot, self.rseq, self.sample))

    @classmethod
    def of_token(cls, token: int) -> "SampleName | None":
        """None if it is not a token."""
        if not 0 <= token < 1 << 8 * _NAME.size:
            return None
        device, boot_id, rseq, sample = _NAME.unpack(token.to_bytes(_NAME.size))
        return cls(Boot(device, boot_id), rseq, sample)


class ReceivedRecords:
    """The received records of one boot."""

    def __init__(self) -> None:
        self.missing = 0  # records that the device had no space for
        self._next_rseq: int | None = None  # after the highest received; None before the first
        self._open: dict[int, set[int]] = {}  # rseq ──► samples that are delivered and not durable
        self._lost: dict[int, set[int]] = {}  # rseq ──► samples that an earlier process did not commit

    @property
    def is_full(self) -> bool:
        return len(self._open) >= MAX_OPEN_RECORDS

    @property
    def committed_rseq(self) -> int:
        """Every record below is durable."""
        return min((*self._open, *self._lost), default=self._next_rseq or 0)

    def recall(self, rseq: int, sample: int, *, is_lost: bool) -> None:
        """An earlier process received this sample."""
        self._next_rseq = max(self._next_rseq or 0, rseq + 1)
        if is_lost:
            self._lost.setdefault(rseq, set()).add(sample)

    def accept(self, record: Record) -> list[int]:
        """The numbers of the samples to deliver; none if all of them were delivered before."""
        rseq, given = record.rseq, {at for at, sample in enumerate(record.samples) if sample.value is not None}
        for passed in [each for each in self._lost if each < rseq]:
            del self._lost[passed]  # records come in order: the device does not have this one any more
        if rseq in self._lost:
            new = self._lost.pop(rseq) & given
        elif self._next_rseq is not None and rseq < self._next_rseq:
            return []
        else:
            self.missing += 0 if self._next_rseq is None else rseq - self._next_rseq
            self._next_rseq = rseq + 1
            new = given
        if new:
            self._open[rseq] = set(new)
        return sorted(new)

    def commit(self, rseq: int, samples: Collection[int]) -> None:
        if rseq in self._open:
            self._open[rseq].difference_update(samples)
            if not self._open[rseq]:
                del self._open[rseq]


class ReceivedByBoot:
    """The received records of every recent boot. It survives sessions, ports and, by `recall`, processes."""

    def __init__(self) -> None:
        self._boots: OrderedDict[Boot, ReceivedRecords] = OrderedDict()

    def of(self, boot: Boot) -> ReceivedRecords:
        records = self._boots.setdefault(boot, ReceivedRecords())
        self._boots.move_to_end(boot)
        if len(self._boots) > MAX_BOOTS:
            self._boots.popitem(last=False)
        return records

    def commit(self, tokens: Iterable[int]) -> None:
        """Mark samples as durable; unknown tokens are ignored."""
        for record, same in groupby(tokens, lambda token: token >> _SAMPLE_BITS):
            name = SampleName.of_token(record << _SAMPLE_BITS)
            if name is not None and name.boot in self._boots:
                self._boots[name.boot].commit(name.rseq, {token & _SAMPLE_MASK for token in same})

    def recall(self, latest: Collection[int], lost: Collection[int]) -> None:
        """Load what an earlier process delivered last, and which of it is not durable."""
        for token in sorted(latest):
            if (name := SampleName.of_token(token)) is not None:
                self.of(name.boot).recall(name.rseq, name.sample, is_lost=token in lost)
