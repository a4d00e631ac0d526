"""The streams, envelopes and contents of key exchange, for both sides.

A publisher responds in the version of the request: 32 names its keys, 31 has the time from which they are valid.
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

KEY_EXCHANGE_PREFIX: Final = "SYSTEM/keyexchange/"

_WITH_KEYS: Final = frozenset({MessageType.GROUP_KEY_RESPONSE, MessageType.GROUP_KEY_ANNOUNCE})


def key_exchange_stream_id(address: str) -> str:
    """The stream on which the owner of this address receives key exchange messages."""
    return KEY_EXCHANGE_PREFIX + address.lower()


def key_exchange_recipient(stream_id: str) -> str | None:
    """The address that the messages of this stream are for; None if it is not a key exchange stream."""
    return stream_id.removeprefix(KEY_EXCHANGE_PREFIX).lower() if stream_id.startswith(KEY_EXCHANGE_PREFIX) else None


class Outbox:
    """Builds signed messages from contents. All of them form one chain, whatever their recipient."""

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
        """Sign a message. `rsa_public_key` is the key that encrypts the keys in the content; version 32 includes it.

        The message names no previous one, because each recipient receives only a part of the chain.
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
    """The message changes nothing and gets no response."""

    reason: str


def open_envelope(message: StreamMessage, address: str) -> GroupKeyMessage | Ignored:
    """The content of a message for this address, if its signature is valid."""
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


MAX_KEYS_PER_RESPONSE: Final = 100

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
    """The response with those requested keys that exist, at most `MAX_KEYS_PER_RESPONSE`."""
    if isinstance(request, GroupKeyRequest):
        requested = dict.fromkeys(request.group_key_ids[:MAX_KEYS_PER_RESPONSE])
        named = [key for group_key_id in requested if (key := ring.named(group_key_id)) is not None]
        encrypted = tuple(EncryptedKey(key.group_key_id, rsa_public_key.encrypt(key)) for key in named)
        return GroupKeyResponse(request_id=request.request_id, stream_id=request.stream_id, group_keys=encrypted)
    held = ring.newest(1) if request.range is None else ring.holding_between(*request.range)
    timed = tuple(
        TimedKey(rsa_public_key.encrypt(key), start.timestamp) for start, key in held[-MAX_KEYS_PER_RESPONSE:]
    )
    return TimedKeyResponse(request_id=request.request_id, stream_id=request.stream_id, keys=timed)


def missing_keys(request: KeyRequest, response: GroupKeyResponse | TimedKeyResponse) -> tuple[str, ...] | None:
    """The requested keys that the response lacks; None if it lacks none. Version 31 requests without names."""
    if isinstance(request, GroupKeyRequest) and isinstance(response, GroupKeyResponse):
        given = {key.group_key_id for key in response.group_keys}
        return tuple(name for name in dict.fromkeys(request.group_key_ids) if name not in given) or None
    return None if isinstance(response, TimedKeyResponse) and response.keys else ()


def refusal_of(
    request: KeyRequest, code: str, reason: str, group_key_ids: tuple[str, ...]
) -> GroupKeyErrorResponse | TimedKeyErrorResponse:
    """The error response for these keys, of which at most `MAX_KEYS_PER_RESPONSE` are listed."""
    if isinstance(request, TimedKeyRequest):
        return TimedKeyErrorResponse(
            request_id=request.request_id, stream_id=request.stream_id, code=code, message=reason
        )
    return GroupKeyErrorResponse(
        request_id=request.request_id,
        stream_id=request.stream_id,
        error_code=code,
        error_message=reason,
        group_key_ids=group_key_ids[:MAX_KEYS_PER_RESPONSE],
    )


def announcement_of(
    stream_id: str, key: GroupKey, start: MessageRef, rsa_public_key: RsaPublicKey, *, version: int
) -> GroupKeyAnnounce | TimedKeyReset:
    encrypted_hex = rsa_public_key.encrypt(key)
    if version == 31:
        return TimedKeyReset(stream_id=stream_id, group_key=encrypted_hex, start=start.timestamp)
    return GroupKeyAnnounce(stream_id=stream_id, group_keys=(EncryptedKey(key.group_key_id, encrypted_hex),))
