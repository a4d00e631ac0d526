"""The short way for the message that nearly every record holds: version 32, plain, signed by a device that is known.

It builds no `StreamMessage` and no reference only to take them apart again, which saves as much as all of the decoding
costs. It takes nothing that the long way would refuse: whatever it does not take goes the long way, which says what is
wrong with it. A test holds the two against each other.
"""

import binascii
from typing import Final, NamedTuple

import orjson

from protocol.archive import Record
from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.secp256k1 import PublicKey, default_backend
from protocol.streamr import SignatureType, StreamMessage
from protocol.streamr.signing import signed_payload

__all__ = ["Opened", "QuickReader"]

MAX_KNOWN_KEYS: Final = 1_000
_SIGNATURE_CHARACTERS: Final = 2 + 130
_V_VALUES: Final = (27, 28)
_HEAD: Final = (32, 27, 0, 0, None, None, 2)  # version, a message, JSON, not encrypted, no key, no next key, type ETH

Ref = tuple[int, int]


class Opened(NamedTuple):
    """What the tables need of a stream message that its publisher signed."""

    identity: tuple[str, int, str]  # stream, partition, message chain
    ref: Ref
    previous: Ref | None
    content: str


class QuickReader:
    """Knows the keys of devices whose signatures were checked the long way before."""

    def __init__(self) -> None:
        self._keys: dict[str, PublicKey] = {}

    def read(self, records: list[Record], device: str) -> list[Opened | None]:
        """Each message, if it is one of those, is filed where it belongs and its signature holds.

        All are parsed before the first is verified: the curve's tables and the parser's code do not fit into a small
        processor's caches together, and taking turns with every message costs a third more.
        """
        key = self._keys.get(device)
        if key is None:
            return [None] * len(records)
        signed = [_parse(record, device) for record in records]
        digests = [each and eip191_digest(each.payload) for each in signed]
        return [
            each.opened if each is not None and digest is not None and key.verify(digest, each.signature) else None
            for each, digest in zip(signed, digests, strict=True)
        ]

    def learn(self, message: StreamMessage, device: str) -> None:
        """Take the key from a message of the device whose signature was found to hold."""
        if device in self._keys or message.signature_type is not SignatureType.ETH or not message.signature:
            return
        digest = eip191_digest(signed_payload(message).encode(errors="surrogatepass"))
        compact = binascii.unhexlify(message.signature.removeprefix("0x"))[:64]
        backend = default_backend()
        for v in _V_VALUES:
            key = backend.recover(digest, compact + bytes([v]))
            if key is not None and address_of(key) == device and len(self._keys) < MAX_KNOWN_KEYS:
                self._keys[device] = backend.load_public_key(key)


class _Signed(NamedTuple):
    opened: Opened
    payload: bytes
    signature: bytes


def _parse(record: Record, device: str) -> _Signed | None:
    try:
        return _parse_usual(record, device)
    except (TypeError, ValueError):  # another form: more or fewer elements, not hex, not JSON
        return None


def _parse_usual(record: Record, device: str) -> _Signed | None:
    (
        version, message_id, previous, kind, content_type, encryption, key_id, content, new_key, signature_type,
        signature,
    ) = orjson.loads(record.text)  # fmt: skip
    stream_id, partition, timestamp_ms, sequence, publisher, chain = message_id
    if (
        (version, kind, content_type, encryption, key_id, new_key, signature_type) != _HEAD
        or type(content_type) is not int
        or type(encryption) is not int
        or timestamp_ms != record.timestamp_ms
        or sequence != record.sequence
        or publisher != device
        or type(stream_id) is not str
        or not stream_id
        or type(partition) is not int
        or partition < 0
        or type(chain) is not str
        or type(content) is not str
        or not content
        or len(signature) != _SIGNATURE_CHARACTERS
        or not signature.startswith("0x")
    ):
        return None
    place = f"{stream_id}{partition}{timestamp_ms}{sequence}{publisher}{chain}"
    if previous is None:
        before, payload = None, place + content
    else:
        before_ms, before_sequence = previous
        before, payload = (before_ms, before_sequence), f"{place}{before_ms}{before_sequence}{content}"
        if type(before_ms) is not int or type(before_sequence) is not int or not _is_before(before, record):
            return None
    raw = binascii.unhexlify(signature[2:])
    if raw[64] not in _V_VALUES:
        return None
    return _Signed(
        Opened((stream_id, partition, chain), (timestamp_ms, sequence), before, content), payload.encode(), raw
    )


def _is_before(before: Ref, record: Record) -> bool:
    return before[0] >= 0 and before[1] >= 0 and before < (record.timestamp_ms, record.sequence)
