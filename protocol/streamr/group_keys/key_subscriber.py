"""The subscriber's side of key exchange: requests keys and holds those it receives."""

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

MAX_PENDING_REQUESTS: Final = 100
MAX_KEYS_PER_REQUEST: Final = 100
MAX_KEY_RINGS: Final = 1_000
REQUEST_TIMEOUT_MS: Final = 30_000


class PublisherStream(NamedTuple):
    """A publisher and its stream. The address is in lower case."""

    publisher_id: str
    stream_id: str


class KeysReceived(NamedTuple):
    """New keys; none if the publisher gave none, or if all were known."""

    source: PublisherStream
    keys: tuple[GroupKey, ...]


class KeysConflicting(NamedTuple):
    """The publisher gave a key that contradicts an earlier one. The earlier one stays."""

    source: PublisherStream
    problem: str


class KeysRefused(NamedTuple):
    """The publisher refuses the keys. The length of its texts is not limited."""

    source: PublisherStream
    error_code: str
    error_message: str


class RequestTimedOut(NamedTuple):
    """No response in time. Request again, or give up."""

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
    """Requests keys from publishers and holds them. `version` is 32, or 31 for older publishers."""

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
        self._rings: dict[PublisherStream, KeyRing] = {}  # least recently used first

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is due next; None while no request is pending."""
        return min((pending.deadline_ms for pending in self._pending.values()), default=None)

    def key_for(self, message: StreamMessage) -> GroupKey | None:
        """The key of this encrypted message, if it is known."""
        ring = self._rings.get(_source_of(message))
        if ring is None:
            return None
        if message.group_key_id is not None:
            return ring.named(message.group_key_id)
        return ring.holding_at(message.message_id.ref)

    def learn_next_key(self, message: StreamMessage, next_key: GroupKey) -> list[KeyEvent]:
        """Add the next key in a message, as `decrypt_message` returns it. It is for the messages after it."""
        return self._add_keys(_source_of(message), [HeldKey(ref_after(message.message_id.ref), next_key)])

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
        """The message that requests these keys; in version 31, the newest or those of a range of time.

        None if there is nothing to request: the keys are known, they are requested already, or too many requests are
        pending.

        Raises ValueError if a pending request has this `request_id`; it must never be used twice.
        """
        if request_id in self._pending:
            raise ValueError(f"request_id: {request_id!r} is in use")
        source = PublisherStream(publisher_id.lower(), stream_id)
        unknown = tuple(self._not_requested(source, group_key_ids))[:MAX_KEYS_PER_REQUEST]
        if len(self._pending) >= MAX_PENDING_REQUESTS or not self._is_worth_requesting(source, unknown):
            return None
        self._pending[request_id] = _Pending(source, unknown, now_ms + self._request_timeout_ms)
        request: GroupKeyRequest | TimedKeyRequest
        pem = self._rsa_key_pair.public_key_pem
        if self._version == 31:
            request = TimedKeyRequest(request_id=request_id, stream_id=stream_id, public_key=pem, range=time_range)
        else:
            request = GroupKeyRequest(
                request_id=request_id, stream_id=stream_id, rsa_public_key=pem, group_key_ids=unknown
            )
        return self._outbox.post(request, publisher_id, now_ms, version=self._version)

    def receive(self, message: StreamMessage) -> list[KeyEvent]:
        """Process a message of the key exchange stream, which may be any message, repeated or not. Never raises."""
        content = open_envelope(message, self._outbox.address)
        publisher_id, start = message.message_id.publisher_id.lower(), message.message_id.ref
        match content:
            case Ignored():
                return [content]
            case GroupKeyResponse() | TimedKeyResponse():
                return self._accept_response(content, publisher_id, start)
            case GroupKeyAnnounce() | TimedKeyReset():
                return self._accept_announcement(content, publisher_id, start)
            case GroupKeyErrorResponse():
                return self._accept_refusal(content, publisher_id, content.error_code, content.error_message)
            case TimedKeyErrorResponse():
                return self._accept_refusal(content, publisher_id, content.code, content.message)
            case other:
                return [Ignored(f"{type(other).__name__} is not for a subscriber")]

    def tick(self, now_ms: int) -> list[KeyEvent]:
        """Close the requests that timed out."""
        late = [request_id for request_id, pending in self._pending.items() if pending.deadline_ms <= now_ms]
        events: list[KeyEvent] = []
        for request_id in late:
            source, group_key_ids, _ = self._pending.pop(request_id)
            events.append(RequestTimedOut(source, request_id, group_key_ids))
        return events

    def _not_requested(self, source: PublisherStream, group_key_ids: Iterable[str]) -> Iterator[str]:
        ring = self._rings.get(source)
        requested = {
            name for pending in self._pending.values() if pending.source == source for name in pending.group_key_ids
        }
        for name in dict.fromkeys(group_key_ids):
            if name not in requested and (ring is None or ring.named(name) is None):
                yield name

    def _is_worth_requesting(self, source: PublisherStream, group_key_ids: tuple[str, ...]) -> bool:
        if self._version == 31:
            return all(pending.source != source for pending in self._pending.values())
        return bool(group_key_ids)

    def _accept_response(
        self, response: GroupKeyResponse | TimedKeyResponse, publisher_id: str, start: MessageRef
    ) -> list[KeyEvent]:
        pending = self._close_request(response.request_id, publisher_id, response.stream_id)
        if pending is None:
            return [_NOT_REQUESTED]
        if isinstance(response, GroupKeyResponse):
            requested = [key for key in response.group_keys if key.group_key_id in pending.group_key_ids]
            encrypted = [_Encrypted(key.group_key_id, key.encrypted_hex, start) for key in requested]
        else:
            encrypted = [_Encrypted("", key.group_key, MessageRef(key.start, 0)) for key in response.keys]
        return self._decrypt(pending.source, encrypted[:MAX_KEYS_PER_REQUEST])

    def _accept_announcement(
        self, announcement: GroupKeyAnnounce | TimedKeyReset, publisher_id: str, start: MessageRef
    ) -> list[KeyEvent]:
        source = PublisherStream(publisher_id, announcement.stream_id)
        if source not in self._rings:
            return [Ignored("keys were announced for a stream without known keys")]
        if isinstance(announcement, TimedKeyReset):
            encrypted = [_Encrypted("", announcement.group_key, MessageRef(announcement.start, 0))]
        else:
            encrypted = [_Encrypted(key.group_key_id, key.encrypted_hex, start) for key in announcement.group_keys]
        return self._decrypt(source, encrypted[:MAX_KEYS_PER_REQUEST])

    def _accept_refusal(
        self,
        refusal: GroupKeyErrorResponse | TimedKeyErrorResponse,
        publisher_id: str,
        error_code: str,
        error_message: str,
    ) -> list[KeyEvent]:
        refused = refusal.group_key_ids if isinstance(refusal, GroupKeyErrorResponse) else ()
        pending = self._close_request(refusal.request_id, publisher_id, refusal.stream_id)
        if pending is not None and refusal.request_id is not None:
            self._reopen(refusal.request_id, pending, refused)
        return [_NOT_REQUESTED if pending is None else KeysRefused(pending.source, error_code, error_message)]

    def _close_request(self, request_id: str | None, publisher_id: str, stream_id: str | None) -> _Pending | None:
        """The pending request that this publisher responds to. Clients before release 5 do not repeat its id."""
        for name, pending in self._pending.items():
            is_named = request_id is None or name == request_id
            if (
                is_named
                and pending.source.publisher_id == publisher_id
                and stream_id in (None, pending.source.stream_id)
            ):
                return self._pending.pop(name)
        return None

    def _reopen(self, request_id: str, pending: _Pending, refused: tuple[str, ...]) -> None:
        """A refusal of some of the keys may arrive before the response with the others."""
        others = tuple(name for name in pending.group_key_ids if name not in refused)
        if refused and 0 < len(others) < len(pending.group_key_ids):
            self._pending[request_id] = pending._replace(group_key_ids=others)

    def _decrypt(self, source: PublisherStream, encrypted: list[_Encrypted]) -> list[KeyEvent]:
        decrypted: list[HeldKey] = []
        events: list[KeyEvent] = []
        for group_key_id, encrypted_hex, start in encrypted:
            try:
                decrypted.append(HeldKey(start, self._rsa_key_pair.decrypt(group_key_id, encrypted_hex)))
            except WireError as problem:
                events.append(Ignored(f"group key {group_key_id!r}: {problem}"))
        return self._add_keys(source, decrypted) + events

    def _add_keys(self, source: PublisherStream, held_keys: list[HeldKey]) -> list[KeyEvent]:
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
            self._store_ring(source, ring)
        return [KeysReceived(source, tuple(new)), *conflicts]

    def _store_ring(self, source: PublisherStream, ring: KeyRing) -> None:
        if len(self._rings) >= MAX_KEY_RINGS:
            del self._rings[next(iter(self._rings))]
        self._rings[source] = ring


_NOT_REQUESTED: Final = Ignored("it responds to no pending request")


def _source_of(message: StreamMessage) -> PublisherStream:
    return PublisherStream(message.message_id.publisher_id.lower(), message.message_id.stream_id)
