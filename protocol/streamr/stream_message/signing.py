"""Signing and verifying stream messages. The signature covers these fields:

    ETH         stream id, partition, timestamp, sequence number, publisher id, chain id,
                previous timestamp and sequence number, content, new group key
    ETH_LEGACY  stream id, timestamp, publisher id, content

joined without separators. ETH is of versions 30 to 32, and the only type that is written. ETH_LEGACY is only verified,
also with the partition after the stream id, as the documents show it, although no client did that. NONE means no
signature.

The publisher id is signed in lower case, numbers in decimal, the content and the new group key as the texts in the
message; absent fields add nothing. The message type, the encryption type and the group key id are not signed.

A signature is valid if the publisher's key made it: the key is recovered from the signature and its address compared
with the publisher id. Old clients counted UTF-16 units instead of bytes in the prefix of the digest, so a text that is
not ASCII is verified in both ways.
"""

import binascii
from enum import StrEnum
from typing import Final

from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.secp256k1 import V_VALUES, Backend, PublicKey, default_backend
from protocol.ethereum.signer import Signer
from protocol.streamr.stream_message.message import StreamMessage
from protocol.streamr.stream_message.parts import SignatureType

MAX_KNOWN_KEYS: Final = 1_000

_FIRST_ETH_VERSION: Final = 30
_SIGNATURE_DIGITS: Final = 130
_NONE: Final = SignatureType.NONE  # finding a member through its class takes time in a hot loop
_ETH: Final = SignatureType.ETH


class Verdict(StrEnum):
    """The result of verifying a signature. Only `VERIFIED` is true."""

    VERIFIED = "the publisher signed this message"
    UNSIGNED = "the message is not signed"
    MALFORMED = "the signature is not the hex of 65 bytes ending in 27 or 28"
    FOREIGN = "the publisher did not sign this message: the signature is another's, or something was changed"
    UNCHECKABLE = "what was signed cannot be rebuilt from this version of the message"

    def __bool__(self) -> bool:
        return self is Verdict.VERIFIED


def signed_payload(message: StreamMessage) -> str:
    """The text that a signature of type ETH covers."""
    stream_id, partition, timestamp, sequence_number, publisher_id, msg_chain_id = message.message_id
    prev, new_key = message.prev_msg_ref, message.new_group_key
    return (
        f"{stream_id}{partition}{timestamp}{sequence_number}{publisher_id.lower()}{msg_chain_id}"
        f"{'' if prev is None else f'{prev.timestamp}{prev.sequence_number}'}"
        f"{message.content}{'' if new_key is None else new_key.serialized}"
    )


def signed_digest(message: StreamMessage) -> bytes:
    """The digest of that text: the same for all messages that one signed text can be cut into."""
    return eip191_digest(signed_payload(message).encode(errors="surrogatepass"))


def sign_message(message: StreamMessage, signer: Signer) -> StreamMessage:
    """The same message, signed (type ETH).

    Raises ValueError if the publisher id is not the signer's address, or the version is before 30.
    """
    if message.message_id.publisher_id.lower() != signer.address:
        raise ValueError(f"publisher_id: {message.message_id.publisher_id!r} is not the signer's {signer.address}")
    if message.version < _FIRST_ETH_VERSION:
        raise ValueError(f"version: {message.version} cannot carry a signature of type ETH")
    signature = signer.sign_message(signed_payload(message))
    return message.replace(signature_type=SignatureType.ETH, signature=signature)


def verify(message: StreamMessage, *, backend: Backend | None = None) -> Verdict:
    """Whether the publisher signed this message. Never raises."""
    signature = _signature_to_check(message)
    if isinstance(signature, Verdict):
        return signature
    address = _recover(message, signature, backend or default_backend())
    return Verdict.VERIFIED if address == message.message_id.publisher_id.lower() else Verdict.FOREIGN


def recover_signer(message: StreamMessage, *, backend: Backend | None = None) -> str | None:
    """The address (lower case) of the key that made the signature, whatever the publisher id.

    None if there is no signature, if no key can have made it, or if `verify` returns `UNCHECKABLE`.
    """
    signature = _signature_to_check(message)
    return None if isinstance(signature, Verdict) else _recover(message, signature, backend or default_backend())


class Verifier:
    """Verifies many messages of few publishers faster: it recovers the key of a publisher once and caches it.

    A known key verifies r and s, but not v. So that the verdict does not depend on the messages verified before, a
    `Verifier` accepts both 27 and 28 as v, where `verify` does not: a signature that differs from the publisher's own
    only in v is `VERIFIED` here. Otherwise both give the same verdict.
    """

    def __init__(self, *, backend: Backend | None = None, max_known_keys: int = MAX_KNOWN_KEYS) -> None:
        self._backend = backend or default_backend()
        self._max_known_keys = max_known_keys
        self._known_keys: dict[str, PublicKey] = {}  # by address, oldest first

    def verify(self, message: StreamMessage) -> Verdict:
        signature = _signature_to_check(message)
        if isinstance(signature, Verdict):
            return signature
        publisher = message.message_id.publisher_id.lower()
        if self._verify_known(message, signature, publisher) or self._recover_either(message, signature, publisher):
            return Verdict.VERIFIED
        return Verdict.FOREIGN

    def _verify_known(self, message: StreamMessage, signature: bytes, publisher: str) -> bool:
        key = self._known_keys.get(publisher)
        return key is not None and any(key.verify(digest, signature) for digest in _digests(message))

    def _recover_either(self, message: StreamMessage, signature: bytes, publisher: str) -> bool:
        """For a publisher whose key is unknown, and for an s in the upper half, which a known key refuses."""
        for digest in _digests(message):
            for v in V_VALUES:
                key = self._backend.recover(digest, signature[:64] + bytes([v]))
                if key is not None and address_of(key) == publisher:
                    self._add_key(publisher, key)
                    return True
        return False

    def _add_key(self, publisher: str, public_key: bytes) -> None:
        if publisher in self._known_keys:
            return
        if len(self._known_keys) >= self._max_known_keys:
            del self._known_keys[next(iter(self._known_keys))]
        self._known_keys[publisher] = self._backend.load_public_key(public_key)


def _recover(message: StreamMessage, signature: bytes, backend: Backend) -> str | None:
    """The publisher if any form of the payload gives it, else the address that the usual form gives."""
    publisher = message.message_id.publisher_id.lower()
    usual: str | None = None
    for digest in _digests(message):
        key = backend.recover(digest, signature)
        address = None if key is None else address_of(key)
        if address == publisher:
            return address
        usual = usual or address
    return usual


def _digests(message: StreamMessage) -> list[bytes]:
    """The digests that the signer may have signed, the most likely first."""
    if message.signature_type is _ETH:
        return _digests_of(signed_payload(message))
    stream_id, partition, timestamp, _, publisher_id, _ = message.message_id
    rest = f"{timestamp}{publisher_id.lower()}{message.content}"
    as_clients_did, as_documents_say = f"{stream_id}{rest}", f"{stream_id}{partition}{rest}"
    return _digests_of(as_clients_did) + _digests_of(as_documents_say)


def _digests_of(payload: str) -> list[bytes]:
    if payload.isascii():
        return [eip191_digest(payload.encode())]
    encoded = payload.encode(errors="surrogatepass")  # invalid text fails verification without an error
    utf16_units = len(payload.encode("utf-16-le", errors="surrogatepass")) // 2
    return [eip191_digest(encoded), eip191_digest(encoded, claimed_length=utf16_units)]


def _signature_to_check(message: StreamMessage) -> bytes | Verdict:
    """The signature, or the verdict if there is nothing to compute."""
    if message.signature_type is _NONE:
        return Verdict.UNSIGNED
    if message.version < _FIRST_ETH_VERSION and message.signature_type is _ETH:
        return Verdict.UNCHECKABLE
    return _parse_signature(message.signature) or Verdict.MALFORMED


def _parse_signature(text: str | None) -> bytes | None:
    """r ‖ s ‖ v, from hex digits in any case, with or without 0x."""
    if text is None:
        return None
    digits = text.removeprefix("0x")
    if len(digits) != _SIGNATURE_DIGITS:
        return None
    try:
        raw = binascii.unhexlify(digits)
    except ValueError:
        return None
    return raw if raw[64] in V_VALUES else None
