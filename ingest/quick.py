"""Fast path for the record that nearly every archive is full of, from its text to its row.

It reads a text of the usual form (`protocol/streamr/stream_message/usual_text.py`), signed by a device whose key is
known and made while the device knew the time, without building a `StreamMessage` or an `IoMessage`. It accepts nothing
that the general path (`ingest/records.py`) would refuse. Whatever it does not accept takes the general path, which says
what is wrong with it. A test compares the two.
"""

import binascii
from collections.abc import Sequence
from typing import Any, Final

from ingest.decoded import (
    EARLIEST_MESSAGE_MS,
    EARLIEST_MS,
    LATEST_MS,
    MAX_PRIORITY,
    ChainLink,
    Decoded,
    arrival_us,
    scalar_columns,
)
from protocol.archive.records import Record
from protocol.clock import CORRECTION_INFO_TYPE
from protocol.errors import WireError
from protocol.ethereum.hashing import address_of
from protocol.ethereum.secp256k1 import V_VALUES, PublicKey, default_backend
from protocol.events import GAP_INFO_TYPE
from protocol.iomessage.as_bytes import split_values
from protocol.iomessage.binary_hash import digest_of_binary
from protocol.scalars import unit_of
from protocol.streamr.stream_message import SignatureType, StreamMessage
from protocol.streamr.stream_message.signing import signed_digest
from protocol.streamr.stream_message.usual_text import UsualText, parse_usual_text

MAX_KNOWN_DEVICES: Final = 1_000
MAX_REMEMBERED: Final = 10_000  # streams, sensors
WIDEST_USUAL_INTEGER: Final = 6  # bytes; wider ones may be doubles in disguise

_NO_WORK: Final = (b"", b"\x00")
_EVENTS: Final = (GAP_INFO_TYPE.encode(), CORRECTION_INFO_TYPE.encode())

_new: Final = tuple.__new__  # a named tuple's own constructor would cost as much as the rest of its row

_Identity = tuple[str, int, str]  # stream, partition, message chain


class QuickReader:
    """Remembers devices, streams and sensors. What it has seen changes its speed, never its verdict."""

    def __init__(self) -> None:
        self._keys: dict[str, PublicKey] = {}
        self._identities: dict[tuple[bytes, ...], _Identity] = {}
        self._descriptions: dict[tuple[bytes, ...], tuple[Any, ...]] = {}

    def knows(self, device: str) -> bool:
        return device in self._keys

    def learn(self, message: StreamMessage, device: str) -> None:
        """Take the key from a message of the device whose signature was found to hold."""
        if device in self._keys or message.signature_type is not SignatureType.ETH or not message.signature:
            return
        digest = signed_digest(message)
        compact = binascii.unhexlify(message.signature.removeprefix("0x"))[:64]
        backend = default_backend()
        for v in V_VALUES:
            key = backend.recover(digest, compact + bytes([v]))
            if key is not None and address_of(key) == device and len(self._keys) < MAX_KNOWN_DEVICES:
                self._keys[device] = backend.load_public_key(key)

    def verify(self, device: str, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        """Whether the device, which is known, made each signature. `Verifier` may still accept one that fails here."""
        return self._keys[device].verify_all(digests, signatures)

    def read(self, records: Sequence[Record], device: str) -> list[UsualText | None]:
        """Each record that is of the usual form, filed where it belongs, and signed; None for the others.

        All are parsed before the first is verified: the curve's tables and the parser's code do not fit into a small
        processor's caches together, and taking turns with every message costs a third more.
        """
        if not self.knows(device):
            return [None] * len(records)
        parsed = [self.parse(record, device) for record in records]
        usual = [each for each in parsed if each is not None]
        holds = iter(self.verify(device, [each.digest for each in usual], [each.signature for each in usual]))
        return [each if each is not None and next(holds) else None for each in parsed]

    def parse(self, record: Record, device: str) -> UsualText | None:
        """The record's text, if it is of the usual form and filed where it belongs."""
        parsed = parse_usual_text(record.text)
        if parsed is None or parsed.ref != record[2:4] or parsed.publisher != device.encode():
            return None
        return parsed

    def decode(self, record: Record, parsed: UsualText | None, number: int) -> Decoded | None:
        """What a verified record holds, if that is linked and of the usual form; `number` is its own in the archive."""
        if parsed is None:
            return None
        try:
            return self._decode_usual(record, parsed, number)
        except (ValueError, WireError):  # not base64, not UTF-8, no ioMessage, no scalar
            return None

    def _decode_usual(self, record: Record, parsed: UsualText, number: int) -> Decoded | None:
        _, chain, timestamp_ms, sequence, _, _, arrived_at_ms, _ = record
        written, _, _, previous, signed_digest, _, base64 = parsed
        identity = self._identity(*written)
        data = binascii.a2b_base64(base64, strict_mode=True)
        (
            id_, tag, group_id, _, _, priority, made_at, publisher, _, _, position, hash_, previous_hash, _, difficulty,
            info_type, info_format, context, value,
        ) = split_values(data)  # fmt: skip
        event_ms = int.from_bytes(made_at) or timestamp_ms
        if (
            context
            or difficulty not in _NO_WORK
            or not id_
            or len(made_at) > WIDEST_USUAL_INTEGER
            or len(position) > WIDEST_USUAL_INTEGER
            or not (EARLIEST_MESSAGE_MS <= timestamp_ms < LATEST_MS and EARLIEST_MS <= event_ms < LATEST_MS)
            or info_type in _EVENTS
        ):
            return None
        digest, claimed = (digest_of_binary(data), hash_.decode()) if hash_ else (None, None)
        if digest is not None and digest.hex() != claimed:
            return None
        counted = int.from_bytes(position) if position else None
        described = self._describe((publisher, tag, group_id, priority, info_type, info_format))
        element, *_, unit = described
        row = (
            number, chain, timestamp_ms, sequence, arrival_us(arrived_at_ms), *identity, *(previous or (None, None)),
            "plain", id_.decode(), *described,
            *((None, None, None, None, value) if unit is None else scalar_columns(value)),
            counted, digest, "synchronised", None, None, event_ms * 1000, signed_digest,
        )  # fmt: skip
        link = None
        if claimed is not None and counted is not None:
            link = _new(ChainLink, (element, counted, claimed, previous_hash.decode() or None))
        return _new(Decoded, (identity, (timestamp_ms, sequence), previous, link, row, None, None))

    def _identity(self, *written: bytes) -> _Identity:
        """The same few in every message of a device."""
        found = self._identities.get(written)
        if found is None:
            stream, partition, chain = written
            found = (stream.decode(), int(partition), chain.decode())
            _remember(self._identities, written, found)
        return found

    def _describe(self, written: tuple[bytes, ...]) -> tuple[Any, ...]:
        """The columns from `element` to `unit`; the same few in every message of a sensor."""
        found = self._descriptions.get(written)
        if found is None:
            publisher, tag, group_id, priority, info_type, info_format = written
            found = (
                publisher.decode() or None,
                (tag or publisher).decode() or None,
                group_id.decode() or None,
                min(int.from_bytes(priority), MAX_PRIORITY) if priority else None,
                info_type.decode() or None,
                info_format.decode() or None,
                unit_of(info_format.decode()),
            )
            _remember(self._descriptions, written, found)
        return found


def _remember(memory: dict[Any, Any], name: Any, value: Any) -> None:
    """Bounded, for a hostile device may name a new sensor in every message."""
    if len(memory) >= MAX_REMEMBERED:
        memory.clear()
    memory[name] = value
