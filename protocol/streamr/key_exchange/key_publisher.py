"""The publisher's side: it has the keys, and says who gets them."""

from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.group_key import GroupKey
from protocol.streamr.group_key_messages import GroupKeyRequest, TimedKeyRequest
from protocol.streamr.ids import MessageRef
from protocol.streamr.key_exchange.contents import (
    KeyRequest,
    announcement_of,
    public_key_of,
    refusal_of,
    response_to,
    version_of,
)
from protocol.streamr.key_exchange.exchange_streams import Outbox
from protocol.streamr.key_exchange.key_ring import KeyRing, ref_after
from protocol.streamr.key_exchange.reception import Ignored, open_envelope
from protocol.streamr.rsa import RsaPublicKey
from protocol.streamr.stream_message import StreamMessage

__all__ = ["Answer", "Answered", "KeyPublisher", "MessageKeys", "Refused"]

MAX_SUBSCRIBERS_PER_STREAM: Final = 1_000
MAX_REQUEST_ID_CHARACTERS: Final = 200
MAX_STREAM_ID_CHARACTERS: Final = 1_000


class Answered(NamedTuple):
    """Publish `message`: it holds those of the keys asked for that there are, maybe none."""

    message: StreamMessage
    requester: str
    stream_id: str


class Refused(NamedTuple):
    """Publish `message`: it tells the requester why it gets no keys."""

    message: StreamMessage
    requester: str
    stream_id: str
    reason: str


Answer = Answered | Refused | Ignored


class MessageKeys(NamedTuple):
    """What to encrypt a message with, and the key it hands over to those that read it."""

    key: GroupKey
    next_key: GroupKey | None


class _Subscriber(NamedTuple):
    rsa_public_key: RsaPublicKey
    version: int


class _Stream:
    def __init__(self) -> None:
        self.ring = KeyRing()
        self.next_key: GroupKey | None = None
        self.subscribers: dict[str, _Subscriber] = {}  # by address; the one that asked longest ago comes first


class KeyPublisher:
    """Keeps the keys of our streams, gives them to whoever may have them, and changes them.

    `is_allowed(stream_id, address)` is asked anew for every request and announcement; addresses are in
    lower case.
    """

    def __init__(self, signer: Signer, msg_chain_id: str, is_allowed: Callable[[str, str], bool]) -> None:
        self._outbox = Outbox(signer, msg_chain_id)
        self._is_allowed = is_allowed
        self._streams: dict[str, _Stream] = {}

    def add_key(self, stream_id: str, key: GroupKey, start: MessageRef) -> None:
        """Take a key that was made or stored before: the first one of a stream, and those of earlier times.

        Raises: `KeyConflictError` where the stream has another key of this name; ValueError where the key has
        none.
        """
        _check_name(key)
        self._streams.setdefault(stream_id, _Stream()).ring.add(key, start)

    def rotate(self, stream_id: str, next_key: GroupKey) -> None:
        """Let the next message of the stream hand over this key.

        Raises: `KeyConflictError` where the name is taken; ValueError where the key has none, or the stream
        has no key yet.
        """
        _check_name(next_key)
        stream = self._stream(stream_id)
        stream.ring.check_new(next_key)
        stream.next_key = next_key

    def take_keys(self, stream_id: str, ref: MessageRef) -> MessageKeys:
        """The keys for the message at `ref`, which must be sent. After a rotation, those behind it get the next key.

        Raises ValueError where the stream has no key yet.
        """
        stream = self._stream(stream_id)
        ((_, key),) = stream.ring.newest(1)
        next_key, stream.next_key = stream.next_key, None
        if next_key is not None:
            stream.ring.add_newest(next_key, ref_after(ref))
        return MessageKeys(key, next_key)

    def rekey(self, stream_id: str, key: GroupKey, now_ms: int) -> list[StreamMessage]:
        """Use this key from now on, and announce it to those who asked for keys before and may still have them.

        Publish what is returned. A rotation that was waiting is off: readers of the old key must not follow
        by it.

        Raises: `KeyConflictError` where the name is taken; ValueError where the key has none, or the stream
        has no key yet.
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
        """What to do about a message from our key exchange stream. Anything may come; nothing raises."""
        request = open_envelope(message, self._outbox.address)
        if isinstance(request, Ignored):
            return request
        if not isinstance(request, GroupKeyRequest | TimedKeyRequest):
            return Ignored(f"{type(request).__name__} is not for a publisher")
        if (
            len(request.request_id or "") > MAX_REQUEST_ID_CHARACTERS
            or len(request.stream_id) > MAX_STREAM_ID_CHARACTERS
        ):
            return Ignored("content: the request's id or its stream's is too long to be repeated")
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
        _remember(stream.subscribers, requester, _Subscriber(rsa_public_key, version))
        response = response_to(request, stream.ring, rsa_public_key)
        message = self._outbox.post(response, requester, now_ms, version=version, rsa_public_key=rsa_public_key.pem)
        return Answered(message, requester, request.stream_id)

    def _refuse(self, request: KeyRequest, requester: str, reason: str, now_ms: int) -> Refused:
        message = self._outbox.post(refusal_of(request, reason), requester, now_ms, version=version_of(request))
        return Refused(message, requester, request.stream_id, reason)

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


def _check_name(key: GroupKey) -> None:
    if not key.group_key_id:
        raise ValueError("group_key_id: is empty; a publisher names its keys")


def _remember(subscribers: dict[str, _Subscriber], address: str, subscriber: _Subscriber) -> None:
    subscribers.pop(address, None)
    if len(subscribers) >= MAX_SUBSCRIBERS_PER_STREAM:
        del subscribers[next(iter(subscribers))]
    subscribers[address] = subscriber
