r"""The short way for the message that nearly every record holds, from its text to its row.

    [32,["<stream>",<partition>,<timestamp>,<sequence>,"<publisher>","<chain>"],<previous>,27,0,0,null,
     "{\"ioMessage\":\"<base64>\"}",null,2,"0x<signature>"]

That is: version 32, plain, a reading in the binary embodiment, written without a space too many, signed by a device
whose key is known, made while the device knew the time. The short way reads it without building a `StreamMessage` or
an `IoMessage` only to take them apart again. It takes nothing that the long way would refuse: whatever it does not take
goes the long way, which says what is wrong with it. A test holds the two against each other.
"""

import binascii
import re
from typing import Any, Final, NamedTuple

from ingest.decoded import EARLIEST_MS, LATEST_MS, MAX_PRIORITY, Decoded, Ref, Seal, scalar_columns
from protocol.archive import Record
from protocol.clock import CORRECTION_INFO_TYPE
from protocol.errors import WireError
from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.secp256k1 import PublicKey, default_backend
from protocol.events import GAP_INFO_TYPE
from protocol.iomessage.as_bytes import split_values
from protocol.iomessage.binary_seal import sealed_digest
from protocol.scalars import unit_of
from protocol.streamr import SignatureType, StreamMessage
from protocol.streamr.signing import signed_payload

__all__ = ["Parsed", "QuickReader"]

MAX_KNOWN_DEVICES: Final = 1_000
MAX_REMEMBERED: Final = 10_000  # streams, sensors
WIDEST_USUAL_INTEGER: Final = 6  # bytes; wider ones may be doubles in disguise

_PLACE: Final = re.compile(rb"[^\\\x00-\x1f\x7f-\xff]+,(?:0|[1-9][0-9]{0,8}),[^\\\x00-\x1f\x7f-\xff]*")
_SIGNATURE_CHARACTERS: Final = 2 + 130
_V_VALUES: Final = (27, 28)
_NO_WORK: Final = (b"", b"\x00")
_EVENTS: Final = (GAP_INFO_TYPE.encode(), CORRECTION_INFO_TYPE.encode())
_NO_PREVIOUS: Final = b"],null,27,0,0,null,"
_PREVIOUS_START, _PREVIOUS_END = b"],[", b"],27,0,0,null,"

_new: Final = tuple.__new__  # a named tuple's own constructor would cost as much as the rest of its row

_Identity = tuple[str, int, str]  # stream, partition, message chain
Parsed = tuple[bytes, bytes, _Identity, Ref | None, bytes]  # what was signed, signature, …, ioMessage in base64


class _Known(NamedTuple):
    """A device whose signatures were checked the long way before."""

    key: PublicKey
    address: bytes
    frame: tuple[bytes, ...]  # the pieces between quotes that are the same in all of its usual messages


class QuickReader:
    """Remembers devices, streams and sensors. What it has seen changes its speed, never its verdict."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._identities: dict[tuple[bytes, bytes, bytes], _Identity | None] = {}
        self._descriptions: dict[tuple[bytes, ...], tuple[Any, ...]] = {}

    def verify(self, records: list[Record], device: str) -> list[Parsed | None]:
        """Each record that is of the usual form, filed where it belongs, and signed; None for the others.

        All are parsed before the first is verified: the curve's tables and the parser's code do not fit into a small
        processor's caches together, and taking turns with every message costs a third more.
        """
        known = self._known.get(device)
        if known is None:
            return [None] * len(records)
        parsed = [self._parse(record, known) for record in records]
        digests = [each and eip191_digest(each[0]) for each in parsed]
        verify = known.key.verify
        return [
            each if each is not None and digest is not None and verify(digest, each[1]) else None
            for each, digest in zip(parsed, digests, strict=True)
        ]

    def learn(self, message: StreamMessage, device: str) -> None:
        """Take the key from a message of the device whose signature was found to hold."""
        if device in self._known or message.signature_type is not SignatureType.ETH or not message.signature:
            return
        digest = eip191_digest(signed_payload(message).encode(errors="surrogatepass"))
        compact = binascii.unhexlify(message.signature.removeprefix("0x"))[:64]
        backend = default_backend()
        for v in _V_VALUES:
            key = backend.recover(digest, compact + bytes([v]))
            if key is not None and address_of(key) == device and len(self._known) < MAX_KNOWN_DEVICES:
                address = device.encode()
                frame = (b"[32,[", address, b",", b"{\\", b"ioMessage\\", b":\\", b"}", b",null,2,", b"]")
                self._known[device] = _Known(backend.load_public_key(key), address, frame)

    def _parse(self, record: Record, known: _Known) -> Parsed | None:
        """A text of the usual form, cut at its quotes; none of its own texts has a quote."""
        text, _, timestamp_ms, sequence, _, _, _ = record
        try:
            (
                head, stream_id, place, publisher, comma, chain, before, brace, name, colon, content, end, kind,
                signature, tail,
            ) = text.split(b'"')  # fmt: skip
            if (head, publisher, comma, brace, name, colon, end, kind, tail) != known.frame:
                return None
            partition = place[1 : place.index(b",", 1)]
            identity = self._identity(stream_id, partition, chain)
            previous, written_previous = _read_previous(before)
            raw = binascii.unhexlify(signature[2:])
        except ValueError:  # another form: more or fewer texts, not hex, not a number
            return None
        if (
            identity is None
            or place != b",%b,%d,%d," % (partition, timestamp_ms, sequence)
            or (previous is not None and previous >= (timestamp_ms, sequence))
            or len(signature) != _SIGNATURE_CHARACTERS
            or not signature.startswith(b"0x")
            or raw[64] not in _V_VALUES
            or not content.endswith(b"\\")
        ):
            return None
        base64 = content[:-1]
        signed = b'%b%b%d%d%b%b%b{"ioMessage":"%b"}' % (
            stream_id, partition, timestamp_ms, sequence, publisher, chain, written_previous, base64,
        )  # fmt: skip
        return signed, raw, identity, previous, base64

    def decode(self, record: Record, parsed: Parsed | None, number: int) -> Decoded | None:
        """What a verified record holds, if that is sealed and of the usual form; `number` is its own in the archive."""
        if parsed is None:
            return None
        try:
            return self._decode_usual(record, parsed, number)
        except (ValueError, WireError):  # not base64, not UTF-8, no ioMessage, no scalar
            return None

    def _decode_usual(self, record: Record, parsed: Parsed, number: int) -> Decoded | None:
        _, chain, timestamp_ms, sequence, _, _, arrived_at_ms = record
        _, _, identity, previous, base64 = parsed
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
            or not (EARLIEST_MS <= timestamp_ms < LATEST_MS and EARLIEST_MS <= event_ms < LATEST_MS)
            or info_type in _EVENTS
        ):
            return None
        digest, claimed = (sealed_digest(data), hash_.decode()) if hash_ else (None, None)
        if digest is not None and digest.hex() != claimed:
            return None
        counted = int.from_bytes(position) if position else None
        described = self._describe((publisher, tag, group_id, priority, info_type, info_format))
        sensor, _, _, _, _, _, unit = described
        row = (
            number, chain, timestamp_ms, sequence, arrived_at_ms * 1000, *identity, *(previous or (None, None)),
            "plain", id_.decode(), *described,
            *((None, None, None, None, value) if unit is None else scalar_columns(value)),
            counted, digest, "synchronised", None, None, event_ms * 1000,
        )  # fmt: skip
        seal = None
        if claimed is not None and counted is not None:
            seal = _new(Seal, (sensor, counted, claimed, previous_hash.decode() or None))
        return _new(Decoded, (identity, (timestamp_ms, sequence), previous, seal, row, None, None))

    def _identity(self, stream_id: bytes, partition: bytes, chain: bytes) -> _Identity | None:
        """The same few in every message of a device; None where they are not plain ASCII and a small number."""
        written = (stream_id, partition, chain)
        if written not in self._identities:
            is_usual = _PLACE.fullmatch(b",".join(written)) and b"," not in partition
            found = (stream_id.decode(), int(partition), chain.decode()) if is_usual else None
            _remember(self._identities, written, found)
        return self._identities[written]

    def _describe(self, written: tuple[bytes, ...]) -> tuple[Any, ...]:
        """The columns from `sensor` to `unit`; the same few in every message of a sensor."""
        found = self._descriptions.get(written)
        if found is None:
            publisher, tag, group_id, priority, info_type, info_format = written
            found = (
                publisher.decode() or None,
                tag.decode() or None,
                group_id.decode() or None,
                min(int.from_bytes(priority), MAX_PRIORITY) if priority else None,
                info_type.decode() or None,
                info_format.decode() or None,
                unit_of(info_format.decode()),
            )
            _remember(self._descriptions, written, found)
        return found


def _read_previous(written: bytes) -> tuple[Ref | None, bytes]:
    """The reference to the message before, and how it is signed. Raises ValueError unless it is of the usual form."""
    if written == _NO_PREVIOUS:
        return None, b""
    before, sequence = written[len(_PREVIOUS_START) : -len(_PREVIOUS_END)].split(b",")
    previous = (int(before), int(sequence))
    if written != b"],[%d,%d],27,0,0,null," % previous or b"-" in written:
        raise ValueError("not as a usual message has it")
    return previous, before + sequence


def _remember(memory: dict[Any, Any], name: Any, value: Any) -> None:
    """Bounded, for a hostile device may name a new sensor in every message."""
    if len(memory) >= MAX_REMEMBERED:
        memory.clear()
    memory[name] = value
