"""The contents a publisher sends, in the version it is spoken to: 32 names its keys, 31 says from when they hold."""

from typing import Final

from protocol.streamr.group_key import GroupKey
from protocol.streamr.group_key_messages import (
    EncryptedKey,
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyRequest,
    GroupKeyResponse,
    TimedKey,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
)
from protocol.streamr.ids import MessageRef
from protocol.streamr.key_exchange.key_ring import KeyRing
from protocol.streamr.rsa import RsaPublicKey

__all__ = ["KeyRequest", "announcement_of", "public_key_of", "refusal_of", "response_to", "version_of"]

MAX_KEYS_PER_ANSWER: Final = 100

KeyRequest = GroupKeyRequest | TimedKeyRequest

_INVALID_REQUEST: Final = "INVALID_GROUP_KEY_REQUEST"


def version_of(request: KeyRequest) -> int:
    return 32 if isinstance(request, GroupKeyRequest) else 31


def public_key_of(request: KeyRequest) -> str:
    return request.rsa_public_key if isinstance(request, GroupKeyRequest) else request.public_key


def response_to(
    request: KeyRequest, ring: KeyRing, rsa_public_key: RsaPublicKey
) -> GroupKeyResponse | TimedKeyResponse:
    """Those of the keys asked for that there are. As real clients do, the others are left out without a word."""
    if isinstance(request, GroupKeyRequest):
        asked = dict.fromkeys(request.group_key_ids[:MAX_KEYS_PER_ANSWER])
        named = [key for group_key_id in asked if (key := ring.named(group_key_id)) is not None]
        encrypted = tuple(EncryptedKey(key.group_key_id, rsa_public_key.encrypt(key)) for key in named)
        return GroupKeyResponse(request_id=request.request_id, stream_id=request.stream_id, group_keys=encrypted)
    held = ring.newest(1) if request.range is None else ring.holding_between(*request.range)
    timed = tuple(TimedKey(rsa_public_key.encrypt(key), start.timestamp) for start, key in held[-MAX_KEYS_PER_ANSWER:])
    return TimedKeyResponse(request_id=request.request_id, stream_id=request.stream_id, keys=timed)


def refusal_of(request: KeyRequest, reason: str) -> GroupKeyErrorResponse | TimedKeyErrorResponse:
    if isinstance(request, TimedKeyRequest):
        return TimedKeyErrorResponse(
            request_id=request.request_id, stream_id=request.stream_id, code=_INVALID_REQUEST, message=reason
        )
    return GroupKeyErrorResponse(
        request_id=request.request_id,
        stream_id=request.stream_id,
        error_code=_INVALID_REQUEST,
        error_message=reason,
        group_key_ids=request.group_key_ids[:MAX_KEYS_PER_ANSWER],
    )


def announcement_of(
    stream_id: str, key: GroupKey, start: MessageRef, rsa_public_key: RsaPublicKey, *, version: int
) -> GroupKeyAnnounce | TimedKeyReset:
    encrypted_hex = rsa_public_key.encrypt(key)
    if version == 31:
        return TimedKeyReset(stream_id=stream_id, group_key=encrypted_hex, start=start.timestamp)
    return GroupKeyAnnounce(stream_id=stream_id, group_keys=(EncryptedKey(key.group_key_id, encrypted_hex),))
