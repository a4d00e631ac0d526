"""The subscriber's side: it asks for keys, and keeps what it is given."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.exchange import Ignored, Outbox, open_envelope
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_ring import HeldKey, KeyConflictError, KeyRing, ref_after
from protocol.streamr.group_keys.messages import (
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyRequest,
    GroupKeyResponse,
    KeyRange,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
)
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import StreamMessage

__all__ = [
    "KeyEvent",
    "KeySubscriber",
    "KeysConflicting",
    "KeysReceived",
    "KeysRefused",
    "PublisherStream",
    "RequestTimedOut",
]

MAX_PENDING_REQUESTS: Final = 100
MAX_KEYS_PER_REQUEST: Final = 100
MAX_KEY_RINGS: Final = 1_000
REQUEST_TIMEOUT_MS: Final = 30_000


class PublisherStream(NamedTuple):
    """Whose keys, and of which stream. The publisher's address is in lower case."""

    publisher_id: str
    stream_id: str


class KeysReceived(NamedTuple):
    """These keys are new. None of them where the publisher had none to give, or where we had them all."""

    source: PublisherStream
    keys: tuple[GroupKey, ...]


class KeysConflicting(NamedTuple):
    """The publisher gave a key that contradicts one it gave before. The one before stays."""

    source: PublisherStream
    problem: str


class KeysRefused(NamedTuple):
    """The publisher does not give us keys. Its words are as long as it liked."""

    source: PublisherStream
    error_code: str
    error_message: str


class RequestTimedOut(NamedTuple):
    """No answer came in time. Ask again, or give up."""

    source: PublisherStream
    request_id: str
    group_key_ids: tuple[str, ...]


KeyEvent = KeysReceived | KeysConflicting | KeysRefused | RequestTimedOut | Ignored


class _Pending(NamedTuple):
    source: PublisherStream
    group_key_ids: tuple[str, ...]
    deadline_ms: int


class _Encrypted(NamedTuple):
    group_key_id: str
    encrypted_hex: str
    start: MessageRef


class KeySubscriber:
    """Asks publishers for keys and keeps them. `version` is 32, or 31 for publishers that stayed there."""

    def __init__(
        self,
        signer: Signer,
        msg_chain_id: str,
        rsa_key_pair: RsaKeyPair,
        *,
        version: int = 32,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        if version not in (31, 32):
            raise ValueError(f"version: {version} is not 31 or 32")
        self._outbox = Outbox(signer, msg_chain_id)
        self._rsa_key_pair = rsa_key_pair
        self._version = version
        self._request_timeout_ms = request_timeout_ms
        self._pending: dict[str, _Pending] = {}  # by request id, the oldest first
        self._rings: dict[PublisherStream, KeyRing] = {}  # the one longest unused first

    @property
    def pending_requests(self) -> int:
        return len(self._pending)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` will next have something to say; None while no request is open."""
        return min((pending.deadline_ms for pending in self._pending.values()), default=None)

    def key_for(self, message: StreamMessage) -> GroupKey | None:
        """The key this encrypted message needs, if we have it."""
        ring = self._rings.get(_source_of(message))
        if ring is None:
            return None
        if message.group_key_id is not None:
            return ring.named(message.group_key_id)
        return ring.holding_at(message.message_id.ref)

    def learn_next_key(self, message: StreamMessage, next_key: GroupKey) -> list[KeyEvent]:
        """Keep the key that a message handed over, as `decrypt_message` gives it. It is for the messages behind it."""
        return self._keep(_source_of(message), [HeldKey(ref_after(message.message_id.ref), next_key)])

    def request_keys(
        self,
        publisher_id: str,
        stream_id: str,
        request_id: str,
        now_ms: int,
        *,
        group_key_ids: Iterable[str] = (),
        time_range: KeyRange | None = None,
    ) -> StreamMessage | None:
        """The message to publish to ask for these keys; in version 31, for the newest or those of a range of time.

        None where there is nothing to ask: we have them, they are asked for already, or too many requests
        are open.

        Raises ValueError where an open request has this `request_id`; it must never be used twice.
        """
        if request_id in self._pending:
            raise ValueError(f"request_id: {request_id!r} is in use")
        source = PublisherStream(publisher_id.lower(), stream_id)
        wanted = tuple(self._not_asked_for(source, group_key_ids))[:MAX_KEYS_PER_REQUEST]
        if len(self._pending) >= MAX_PENDING_REQUESTS or not self._is_worth_asking(source, wanted):
            return None
        self._pending[request_id] = _Pending(source, wanted, now_ms + self._request_timeout_ms)
        request: GroupKeyRequest | TimedKeyRequest
        pem = self._rsa_key_pair.public_key_pem
        if self._version == 31:
            request = TimedKeyRequest(request_id=request_id, stream_id=stream_id, public_key=pem, range=time_range)
        else:
            request = GroupKeyRequest(
                request_id=request_id, stream_id=stream_id, rsa_public_key=pem, group_key_ids=wanted
            )
        return self._outbox.post(request, publisher_id, now_ms, version=self._version)

    def receive(self, message: StreamMessage) -> list[KeyEvent]:
        """Take a message from our key exchange stream. Anything may come, any number of times; nothing raises."""
        content = open_envelope(message, self._outbox.address)
        publisher_id, start = message.message_id.publisher_id.lower(), message.message_id.ref
        match content:
            case Ignored():
                return [content]
            case GroupKeyResponse() | TimedKeyResponse():
                return self._take_response(content, publisher_id, start)
            case GroupKeyAnnounce() | TimedKeyReset():
                return self._take_announcement(content, publisher_id, start)
            case GroupKeyErrorResponse():
                return self._take_refusal(content, publisher_id, content.error_code, content.error_message)
            case TimedKeyErrorResponse():
                return self._take_refusal(content, publisher_id, content.code, content.message)
            case other:
                return [Ignored(f"{type(other).__name__} is not for a subscriber")]

    def tick(self, now_ms: int) -> list[KeyEvent]:
        """Close the requests whose time is over."""
        late = [request_id for request_id, pending in self._pending.items() if pending.deadline_ms <= now_ms]
        events: list[KeyEvent] = []
        for request_id in late:
            source, group_key_ids, _ = self._pending.pop(request_id)
            events.append(RequestTimedOut(source, request_id, group_key_ids))
        return events

    def _not_asked_for(self, source: PublisherStream, group_key_ids: Iterable[str]) -> Iterator[str]:
        ring = self._rings.get(source)
        asked = {
            name for pending in self._pending.values() if pending.source == source for name in pending.group_key_ids
        }
        for name in dict.fromkeys(group_key_ids):
            if name not in asked and (ring is None or ring.named(name) is None):
                yield name

    def _is_worth_asking(self, source: PublisherStream, wanted: tuple[str, ...]) -> bool:
        if self._version == 31:
            return all(pending.source != source for pending in self._pending.values())
        return bool(wanted)

    def _take_response(
        self, response: GroupKeyResponse | TimedKeyResponse, publisher_id: str, start: MessageRef
    ) -> list[KeyEvent]:
        pending = self._close_request(response.request_id, publisher_id, response.stream_id)
        if pending is None:
            return [_NOT_ASKED]
        if isinstance(response, GroupKeyResponse):
            asked = [key for key in response.group_keys if key.group_key_id in pending.group_key_ids]
            encrypted = [_Encrypted(key.group_key_id, key.encrypted_hex, start) for key in asked]
        else:
            encrypted = [_Encrypted("", key.group_key, MessageRef(key.start, 0)) for key in response.keys]
        return self._open(pending.source, encrypted[:MAX_KEYS_PER_REQUEST])

    def _take_announcement(
        self, announcement: GroupKeyAnnounce | TimedKeyReset, publisher_id: str, start: MessageRef
    ) -> list[KeyEvent]:
        source = PublisherStream(publisher_id, announcement.stream_id)
        if source not in self._rings:
            return [Ignored("keys were announced of a stream that we have none of")]
        if isinstance(announcement, TimedKeyReset):
            encrypted = [_Encrypted("", announcement.group_key, MessageRef(announcement.start, 0))]
        else:
            encrypted = [_Encrypted(key.group_key_id, key.encrypted_hex, start) for key in announcement.group_keys]
        return self._open(source, encrypted[:MAX_KEYS_PER_REQUEST])

    def _take_refusal(
        self,
        refusal: GroupKeyErrorResponse | TimedKeyErrorResponse,
        publisher_id: str,
        error_code: str,
        error_message: str,
    ) -> list[KeyEvent]:
        refused = refusal.group_key_ids if isinstance(refusal, GroupKeyErrorResponse) else ()
        pending = self._close_request(refusal.request_id, publisher_id, refusal.stream_id)
        if pending is not None and refusal.request_id is not None:
            self._keep_open(refusal.request_id, pending, refused)
        return [_NOT_ASKED if pending is None else KeysRefused(pending.source, error_code, error_message)]

    def _close_request(self, request_id: str | None, publisher_id: str, stream_id: str | None) -> _Pending | None:
        """The open request that this publisher answers. Clients before release 5 do not repeat its id."""
        for name, pending in self._pending.items():
            is_named = request_id is None or name == request_id
            if (
                is_named
                and pending.source.publisher_id == publisher_id
                and stream_id in (None, pending.source.stream_id)
            ):
                return self._pending.pop(name)
        return None

    def _keep_open(self, request_id: str, pending: _Pending, refused: tuple[str, ...]) -> None:
        """A refusal of some of the keys may overtake the response that holds the others."""
        others = tuple(name for name in pending.group_key_ids if name not in refused)
        if refused and 0 < len(others) < len(pending.group_key_ids):
            self._pending[request_id] = pending._replace(group_key_ids=others)

    def _open(self, source: PublisherStream, encrypted: list[_Encrypted]) -> list[KeyEvent]:
        opened: list[HeldKey] = []
        events: list[KeyEvent] = []
        for group_key_id, encrypted_hex, start in encrypted:
            try:
                opened.append(HeldKey(start, self._rsa_key_pair.decrypt(group_key_id, encrypted_hex)))
            except WireError as problem:
                events.append(Ignored(f"group key {group_key_id!r}: {problem}"))
        return self._keep(source, opened) + events

    def _keep(self, source: PublisherStream, held_keys: list[HeldKey]) -> list[KeyEvent]:
        ring = self._rings.pop(source, KeyRing())
        new: list[GroupKey] = []
        conflicts: list[KeyEvent] = []
        for start, key in held_keys:
            try:
                if ring.add(key, start):
                    new.append(key)
            except KeyConflictError as problem:
                conflicts.append(KeysConflicting(source, str(problem)))
        if len(ring):
            self._remember(source, ring)
        return [KeysReceived(source, tuple(new)), *conflicts]

    def _remember(self, source: PublisherStream, ring: KeyRing) -> None:
        if len(self._rings) >= MAX_KEY_RINGS:
            del self._rings[next(iter(self._rings))]
        self._rings[source] = ring


_NOT_ASKED: Final = Ignored("it answers no request of ours that is open")


def _source_of(message: StreamMessage) -> PublisherStream:
    return PublisherStream(message.message_id.publisher_id.lower(), message.message_id.stream_id)
