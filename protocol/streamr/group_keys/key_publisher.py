"""The publisher's side of key exchange: holds the keys of its streams and gives them to allowed subscribers."""

from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.exchange import (
    INVALID_REQUEST,
    KEY_NOT_FOUND,
    Ignored,
    KeyRequest,
    Outbox,
    announcement_of,
    missing_keys,
    open_envelope,
    public_key_of,
    refusal_of,
    response_to,
    version_of,
)
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_ring import KeyRing, ref_after
from protocol.streamr.group_keys.messages import GroupKeyRequest, GroupKeyResponse, TimedKeyRequest, TimedKeyResponse
from protocol.streamr.group_keys.rsa import RsaPublicKey
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import StreamMessage

MAX_SUBSCRIBERS_PER_STREAM: Final = 1_000
MAX_REQUEST_ID_CHARACTERS: Final = 200
MAX_STREAM_ID_CHARACTERS: Final = 1_000


class Answered(NamedTuple):
    """Publish `message`, which holds keys, and then `error`, if some of the requested keys are unknown."""

    message: StreamMessage
    requester: str
    stream_id: str
    error: StreamMessage | None = None


class KeyRefused(NamedTuple):
    """Publish `message`, the refusal with its reason."""

    message: StreamMessage
    requester: str
    stream_id: str
    reason: str


Answer = Answered | KeyRefused | Ignored


class MessageKeys(NamedTuple):
    """The key to encrypt a message with, and the next key to include in it."""

    key: GroupKey
    next_key: GroupKey | None


class _Subscriber(NamedTuple):
    rsa_public_key: RsaPublicKey
    version: int


class _Stream:
    def __init__(self) -> None:
        self.ring = KeyRing()
        self.next_key: GroupKey | None = None
        self.subscribers: dict[str, _Subscriber] = {}  # by address; least recent request first


class KeyPublisher:
    """Holds the keys of the publisher's streams, gives them to allowed subscribers, and changes them.

    `is_allowed(stream_id, address)` is called for every request and announcement; addresses are in lower case.
    """

    def __init__(self, signer: Signer, msg_chain_id: str, is_allowed: Callable[[str, str], bool]) -> None:
        self._outbox = Outbox(signer, msg_chain_id)
        self._is_allowed = is_allowed
        self._streams: dict[str, _Stream] = {}

    def add_key(self, stream_id: str, key: GroupKey, start: MessageRef) -> None:
        """Add a new or stored key: the first one of a stream, or an earlier one.

        Raises: `KeyConflictError` if the stream has another key of this name; ValueError if the key has none.
        """
        _check_name(key)
        self._streams.setdefault(stream_id, _Stream()).ring.add(key, start)

    def rotate(self, stream_id: str, next_key: GroupKey) -> None:
        """Include this key in the next message of the stream.

        Raises: `KeyConflictError` if the name is in use; ValueError if the key has none, or the stream has no key yet.
        """
        _check_name(next_key)
        stream = self._stream(stream_id)
        stream.ring.check_new(next_key)
        stream.next_key = next_key

    def take_keys(self, stream_id: str, ref: MessageRef) -> MessageKeys:
        """The keys for the message at `ref`, which must be sent. After a rotation, later messages get the next key.

        Raises ValueError if the stream has no key yet.
        """
        stream = self._stream(stream_id)
        ((_, key),) = stream.ring.newest(1)
        next_key, stream.next_key = stream.next_key, None
        if next_key is not None:
            stream.ring.add_newest(next_key, ref_after(ref))
        return MessageKeys(key, next_key)

    def rekey(self, stream_id: str, key: GroupKey, now_ms: int) -> list[StreamMessage]:
        """Use this key from now on, and announce it to earlier requesters that are still allowed.

        Publish the messages returned. A pending rotation is cancelled: it would give the new key to all readers of the
        old one.

        Raises: `KeyConflictError` if the name is in use; ValueError if the key has none, or the stream has no key yet.
        """
        _check_name(key)
        stream = self._stream(stream_id)
        start = stream.ring.add_newest(key, MessageRef(now_ms, 0))
        stream.next_key = None
        stream.subscribers = {
            address: subscriber
            for address, subscriber in stream.subscribers.items()
            if self._is_allowed(stream_id, address)
        }
        return [
            self._announce(stream_id, key, start, address, subscriber, now_ms)
            for address, subscriber in stream.subscribers.items()
        ]

    def answer(self, message: StreamMessage, now_ms: int) -> Answer:
        """The response to a message of the key exchange stream. Never raises."""
        request = open_envelope(message, self._outbox.address)
        if isinstance(request, Ignored):
            return request
        if not isinstance(request, GroupKeyRequest | TimedKeyRequest):
            return Ignored(f"{type(request).__name__} is not for a publisher")
        if (
            len(request.request_id or "") > MAX_REQUEST_ID_CHARACTERS
            or len(request.stream_id) > MAX_STREAM_ID_CHARACTERS
        ):
            return Ignored("content: the request's id or its stream's is too long")
        return self._answer_request(request, message.message_id.publisher_id.lower(), now_ms)

    def _answer_request(self, request: KeyRequest, requester: str, now_ms: int) -> Answer:
        stream = self._streams.get(request.stream_id)
        if stream is None or not self._is_allowed(request.stream_id, requester):
            return self._refuse(request, requester, "this address may not have keys of this stream", now_ms)
        try:
            rsa_public_key = RsaPublicKey(public_key_of(request))
        except WireError as problem:
            return self._refuse(request, requester, str(problem), now_ms)
        version = version_of(request)
        _add_subscriber(stream.subscribers, requester, _Subscriber(rsa_public_key, version))
        response = response_to(request, stream.ring, rsa_public_key)
        missing = missing_keys(request, response)
        if missing is not None and not _has_keys(response):
            return self._refuse(request, requester, "the publisher has no such key", now_ms, code=KEY_NOT_FOUND)
        message = self._outbox.post(response, requester, now_ms, version=version, rsa_public_key=rsa_public_key.pem)
        error = None if missing is None else self._report_missing(request, requester, missing, now_ms)
        return Answered(message, requester, request.stream_id, error)

    def _report_missing(
        self, request: KeyRequest, requester: str, missing: tuple[str, ...], now_ms: int
    ) -> StreamMessage:
        """To be sent after the keys that were found: stock clients treat the first response as the only one."""
        error = refusal_of(request, KEY_NOT_FOUND, "the publisher gives the other keys, but not these", missing)
        return self._outbox.post(error, requester, now_ms, version=version_of(request))

    def _refuse(
        self, request: KeyRequest, requester: str, reason: str, now_ms: int, *, code: str = INVALID_REQUEST
    ) -> KeyRefused:
        requested = request.group_key_ids if isinstance(request, GroupKeyRequest) else ()
        refusal = refusal_of(request, code, reason, requested)
        message = self._outbox.post(refusal, requester, now_ms, version=version_of(request))
        return KeyRefused(message, requester, request.stream_id, reason)

    def _announce(
        self,
        stream_id: str,
        key: GroupKey,
        start: MessageRef,
        address: str,
        subscriber: _Subscriber,
        now_ms: int,
    ) -> StreamMessage:
        rsa_public_key, version = subscriber
        content = announcement_of(stream_id, key, start, rsa_public_key, version=version)
        return self._outbox.post(content, address, now_ms, version=version, rsa_public_key=rsa_public_key.pem)

    def _stream(self, stream_id: str) -> _Stream:
        if stream_id not in self._streams:
            raise ValueError(f"stream {stream_id!r} has no group key")
        return self._streams[stream_id]


def _has_keys(response: GroupKeyResponse | TimedKeyResponse) -> bool:
    return bool(response.group_keys if isinstance(response, GroupKeyResponse) else response.keys)


def _check_name(key: GroupKey) -> None:
    if not key.group_key_id:
        raise ValueError("group_key_id: is empty; a publisher names its keys")


def _add_subscriber(subscribers: dict[str, _Subscriber], address: str, subscriber: _Subscriber) -> None:
    subscribers.pop(address, None)
    if len(subscribers) >= MAX_SUBSCRIBERS_PER_STREAM:
        del subscribers[next(iter(subscribers))]
    subscribers[address] = subscriber
