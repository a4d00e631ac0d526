"""The streams, envelopes and contents of key exchange, as both sides use them.

A publisher answers in the version it is asked in: 32 names its keys, 31 says from when on they hold.
"""

from typing import Final, NamedTuple

from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.codec import parse_group_key_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_ring import KeyRing
from protocol.streamr.group_keys.messages import (
    EncryptedKey,
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyMessage,
    GroupKeyRequest,
    GroupKeyResponse,
    TimedKey,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
)
from protocol.streamr.group_keys.rsa import RsaPublicKey
from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
from protocol.streamr.stream_message import EncryptionType, MessageType, StreamMessage
from protocol.streamr.stream_message.signing import sign_message, verify

__all__ = [
    "Ignored",
    "KeyRequest",
    "Outbox",
    "announcement_of",
    "key_exchange_recipient",
    "key_exchange_stream_id",
    "missing_keys",
    "open_envelope",
    "public_key_of",
    "refusal_of",
    "response_to",
    "version_of",
]

KEY_EXCHANGE_PREFIX: Final = "SYSTEM/keyexchange/"

_WITH_KEYS: Final = frozenset({MessageType.GROUP_KEY_RESPONSE, MessageType.GROUP_KEY_ANNOUNCE})


def key_exchange_stream_id(address: str) -> str:
    """Where to write to the owner of this address."""
    return KEY_EXCHANGE_PREFIX + address.lower()


def key_exchange_recipient(stream_id: str) -> str | None:
    """Whom the messages of this stream are for; None where it is not for key exchange."""
    return stream_id.removeprefix(KEY_EXCHANGE_PREFIX).lower() if stream_id.startswith(KEY_EXCHANGE_PREFIX) else None


class Outbox:
    """Makes signed messages of contents. All of them form one strictly increasing chain, whomever they go to."""

    def __init__(self, signer: Signer, msg_chain_id: str) -> None:
        self.address = signer.address
        self._signer = signer
        self._msg_chain_id = msg_chain_id
        self._last_ref: MessageRef | None = None

    def post(
        self,
        content: GroupKeyMessage,
        recipient: str,
        now_ms: int,
        *,
        version: int,
        rsa_public_key: str | None = None,
    ) -> StreamMessage:
        """With keys in the content, `rsa_public_key` is what they are encrypted with; version 32 names it.

        A message refers to no previous one: each recipient sees only some of the chain.
        """
        ref = self._last_ref = next_message_ref(self._last_ref, now_ms)
        message = StreamMessage(
            message_id=MessageID(
                key_exchange_stream_id(recipient),
                0,
                *ref,
                publisher_id=self.address,
                msg_chain_id=self._msg_chain_id,
            ),
            message_type=content.message_type,
            encryption_type=EncryptionType.RSA if content.message_type in _WITH_KEYS else EncryptionType.NONE,
            group_key_id=rsa_public_key if version == 32 else None,
            content=content.serialize(),
            version=version,
        )
        return sign_message(message, self._signer)


class Ignored(NamedTuple):
    """The message changes nothing and gets no answer."""

    reason: str


def open_envelope(message: StreamMessage, address: str) -> GroupKeyMessage | Ignored:
    """The content of a message for this address, if its sender really signed it."""
    if key_exchange_recipient(message.message_id.stream_id) != address:
        return Ignored("the message is not on our key exchange stream")
    if message.message_id.publisher_id.lower() == address:
        return Ignored("the message is our own")
    verdict = verify(message)
    if not verdict:
        return Ignored(f"signature: {verdict}")
    try:
        return parse_group_key_message(message.message_type, message.content)
    except WireError as problem:
        return Ignored(f"content: {problem}")


MAX_KEYS_PER_ANSWER: Final = 100

KeyRequest = GroupKeyRequest | TimedKeyRequest

INVALID_REQUEST: Final = "INVALID_GROUP_KEY_REQUEST"
KEY_NOT_FOUND: Final = "GROUP_KEY_NOT_FOUND"


def version_of(request: KeyRequest) -> int:
    return 32 if isinstance(request, GroupKeyRequest) else 31


def public_key_of(request: KeyRequest) -> str:
    return request.rsa_public_key if isinstance(request, GroupKeyRequest) else request.public_key


def response_to(
    request: KeyRequest, ring: KeyRing, rsa_public_key: RsaPublicKey
) -> GroupKeyResponse | TimedKeyResponse:
    """Those of the keys asked for that there are, at most `MAX_KEYS_PER_ANSWER`. `missing_keys` are the others."""
    if isinstance(request, GroupKeyRequest):
        asked = dict.fromkeys(request.group_key_ids[:MAX_KEYS_PER_ANSWER])
        named = [key for group_key_id in asked if (key := ring.named(group_key_id)) is not None]
        encrypted = tuple(EncryptedKey(key.group_key_id, rsa_public_key.encrypt(key)) for key in named)
        return GroupKeyResponse(request_id=request.request_id, stream_id=request.stream_id, group_keys=encrypted)
    held = ring.newest(1) if request.range is None else ring.holding_between(*request.range)
    timed = tuple(TimedKey(rsa_public_key.encrypt(key), start.timestamp) for start, key in held[-MAX_KEYS_PER_ANSWER:])
    return TimedKeyResponse(request_id=request.request_id, stream_id=request.stream_id, keys=timed)


def missing_keys(request: KeyRequest, response: GroupKeyResponse | TimedKeyResponse) -> tuple[str, ...] | None:
    """The keys asked for that the response lacks; None where it lacks none. Version 31 asks without names."""
    if isinstance(request, GroupKeyRequest) and isinstance(response, GroupKeyResponse):
        given = {key.group_key_id for key in response.group_keys}
        return tuple(name for name in dict.fromkeys(request.group_key_ids) if name not in given) or None
    return None if isinstance(response, TimedKeyResponse) and response.keys else ()


def refusal_of(
    request: KeyRequest, code: str, reason: str, group_key_ids: tuple[str, ...]
) -> GroupKeyErrorResponse | TimedKeyErrorResponse:
    """Says why these keys, of which at most `MAX_KEYS_PER_ANSWER` are repeated, are not given."""
    if isinstance(request, TimedKeyRequest):
        return TimedKeyErrorResponse(
            request_id=request.request_id, stream_id=request.stream_id, code=code, message=reason
        )
    return GroupKeyErrorResponse(
        request_id=request.request_id,
        stream_id=request.stream_id,
        error_code=code,
        error_message=reason,
        group_key_ids=group_key_ids[:MAX_KEYS_PER_ANSWER],
    )


def announcement_of(
    stream_id: str, key: GroupKey, start: MessageRef, rsa_public_key: RsaPublicKey, *, version: int
) -> GroupKeyAnnounce | TimedKeyReset:
    encrypted_hex = rsa_public_key.encrypt(key)
    if version == 31:
        return TimedKeyReset(stream_id=stream_id, group_key=encrypted_hex, start=start.timestamp)
    return GroupKeyAnnounce(stream_id=stream_id, group_keys=(EncryptedKey(key.group_key_id, encrypted_hex),))
