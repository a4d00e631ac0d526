"""Encrypted streams: the device creates their keys, rotates them, and sends them to permitted readers.

    content ──► encrypt ──► encrypted content ──► signed, journalled, published
                 │
                 ├── rotation: after a number of messages or a time the next message carries the next key,
                 │             encrypted with the current one: present readers continue
                 └── rekeying: on demand, a key that only permitted readers get: excluded ones cannot continue

Requests for keys arrive on the device's key exchange stream, over the websocket publisher's connection (this is its
`Listener`). Addresses in the allow-list of the stream get the keys; all others are refused.

A key is on the disk before anything is encrypted with it. After a restart the newest key stays in use; messages are
counted anew, time is not. Any thread may call anything here.

An operator requests a rekeying with a file in a folder of the data directory, one per stream. The request survives
until the agent has the new key on the disk, so it may be made while the agent does not run. Only users that can write
to the agent's own folder can make one.
"""

import asyncio
import hashlib
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from agent.keys import Secret
from agent.keys.group_keys import MAX_KEYS_PER_STREAM, GroupKeyStore, KeptGroupKey
from agent.pack.wrap import Encrypt, EncryptedContent
from protocol.ethereum.hashing import is_address
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.encryption import IV_BYTES, RandomBytes, encrypt, wrap_next_key
from protocol.streamr.group_keys.exchange import Ignored, key_exchange_stream_id
from protocol.streamr.group_keys.group_key import GROUP_KEY_BYTES, GroupKey
from protocol.streamr.group_keys.key_publisher import Answered, KeyPublisher, KeyRefused
from protocol.streamr.group_keys.key_ring import ref_after
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import EncryptedGroupKey, StreamMessage
from runtime.durable_files import make_directory, replace_file

KEY_ID_BYTES: Final = 16
CHAIN_ID_BYTES: Final = 15
MAX_ANNOUNCEMENTS: Final = 1024  # that wait for a link; a reader that misses one requests the key
log = logging.getLogger(__name__)
FOLDER_NAME: Final = "rekey"
CHECK_S: Final = 1.0
MAX_REQUESTS: Final = 256
MAX_STREAM_ID_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionRules:
    """The readers of a stream, and when its key is rotated. None: not for that reason."""

    readers: frozenset[str]  # addresses, in lower case
    rotate_after_messages: int | None = None
    rotate_after_s: float | None = 86_400.0

    def __post_init__(self) -> None:
        for reader in self.readers:
            if not is_address(reader) or reader != reader.lower():
                raise ValueError(f"readers: {reader!r} is not an address in lower case")
        for name in ("rotate_after_messages", "rotate_after_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} {value} is not above 0")

    def is_rotation_due(self, messages: int, age_ms: int) -> bool:
        by_count = self.rotate_after_messages is not None and messages >= self.rotate_after_messages
        distance_ms = abs(age_ms)  # a key may be dated ahead by a clock that was wrong
        by_time = self.rotate_after_s is not None and distance_ms >= self.rotate_after_s * 1000
        return by_count or by_time


class StreamEncryption:
    """The keys of all encrypted streams of one device. It is the `Listener` of the websocket publisher."""

    def __init__(
        self,
        signer: Signer,
        store: GroupKeyStore,
        streams: Mapping[str, EncryptionRules],
        *,
        random_bytes: RandomBytes = secrets.token_bytes,
    ) -> None:
        """Raises: ConfigError, if the keys of a stream cannot be read."""
        self.stream_id = key_exchange_stream_id(signer.address)
        self._store = store
        self._rules = dict(streams)
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._messages: dict[str, int] = {}  # since the current key came into use
        self._announcements = deque[StreamMessage](maxlen=MAX_ANNOUNCEMENTS)
        self._publisher = KeyPublisher(signer, random_bytes(CHAIN_ID_BYTES).hex(), self._may_read)
        for stream_id in self._rules:
            self._load_keys(stream_id)

    def _load_keys(self, stream_id: str) -> None:
        """Load the keys in the order of their creation, whatever the clock was then: the last one is in use."""
        start = MessageRef(0, 0)
        for key in self._store.history(stream_id):
            start = max(MessageRef(key.created_at_ms, 0), ref_after(start))
            self._publisher.add_key(stream_id, _wire_key(key), start)

    def encrypt_for(self, stream_id: str) -> Encrypt:
        """The encryption of one stream. Raises KeyError if the stream has no rules."""
        return partial(self._encrypt, stream_id, self._rules[stream_id])

    def rekey(self, stream_id: str, now_ms: int) -> None:
        """Use a new key from now on, and announce it to permitted readers that requested keys before.

        Raises: KeyError if the stream is not encrypted; OSError if the new key cannot be stored: the old one stays.
        """
        if stream_id not in self._rules:
            raise KeyError(stream_id)
        with self._lock:
            self._require_key(stream_id, now_ms)
            key = self._new_key(stream_id, now_ms)
            if key is None:
                return
            log.info("stream rekeyed; stream=%s key=%s", stream_id, key.key_id)
            self._announcements.extend(self._publisher.rekey(stream_id, _wire_key(key), now_ms))

    def take_announcements(self) -> Sequence[StreamMessage]:
        with self._lock:
            return [self._announcements.popleft() for _ in range(len(self._announcements))]

    def answer(self, message: StreamMessage, now_ms: int) -> Sequence[StreamMessage]:
        """The responses to a message on our key exchange stream. Never raises."""
        with self._lock:
            answer = self._publisher.answer(message, now_ms)
        match answer:
            case Answered(message=reply, requester=requester, stream_id=stream_id, error=error):
                log.info("keys sent; stream=%s reader=%s", stream_id, requester)
                if error is None:
                    return [reply]
                log.warning("some requested keys are unknown; stream=%s reader=%s", stream_id, requester)
                return [reply, error]
            case KeyRefused(message=reply, requester=requester, stream_id=stream_id, reason=reason):
                log.warning("keys refused; stream=%.100s reader=%s reason=%s", stream_id, requester, reason)
                return [reply]
            case Ignored(reason=reason):
                log.debug("key exchange message ignored; reason=%s", reason)
        return []

    def _may_read(self, stream_id: str, address: str) -> bool:
        rules = self._rules.get(stream_id)
        return rules is not None and address in rules.readers

    def _encrypt(self, stream_id: str, rules: EncryptionRules, content: str, now_ms: int) -> EncryptedContent:
        with self._lock:
            current = self._require_key(stream_id, now_ms)
            messages = self._messages[stream_id] = self._messages.get(stream_id, 0) + 1
            if rules.is_rotation_due(messages, now_ms - current.created_at_ms):
                self._rotate(stream_id, now_ms)
            key, next_key = self._publisher.take_keys(stream_id, MessageRef(now_ms, 0))
        return EncryptedContent(
            encrypt(content.encode(), key, iv=self._iv()), key.group_key_id, self._wrap(next_key, key)
        )

    def _require_key(self, stream_id: str, now_ms: int) -> KeptGroupKey:
        key = self._store.current(stream_id)
        if key is None:
            key = self._make_key(stream_id, now_ms)
            self._publisher.add_key(stream_id, _wire_key(key), MessageRef(now_ms, 0))
        return key

    def _rotate(self, stream_id: str, now_ms: int) -> None:
        key = self._new_key(stream_id, now_ms)
        if key is not None:
            self._publisher.rotate(stream_id, _wire_key(key))

    def _new_key(self, stream_id: str, now_ms: int) -> KeptGroupKey | None:
        """None if the stream has the maximum number of keys: then the last one stays."""
        self._messages[stream_id] = 0
        if len(self._store.history(stream_id)) >= MAX_KEYS_PER_STREAM:
            log.error("too many keys, the last one stays in use; stream=%s", stream_id)
            return None
        return self._make_key(stream_id, now_ms)

    def _make_key(self, stream_id: str, now_ms: int) -> KeptGroupKey:
        secret = Secret(self._random_bytes(GROUP_KEY_BYTES))
        key = KeptGroupKey(key_id=self._random_bytes(KEY_ID_BYTES).hex(), created_at_ms=now_ms, secret=secret)
        self._store.add(stream_id, key)
        return key

    def _wrap(self, next_key: GroupKey | None, key: GroupKey) -> EncryptedGroupKey | None:
        return None if next_key is None else wrap_next_key(next_key, key, iv=self._iv())

    def _iv(self) -> bytes:
        return self._random_bytes(IV_BYTES)


def _wire_key(key: KeptGroupKey) -> GroupKey:
    return GroupKey(key.key_id, key.secret.reveal())


def request_rekey(folder: Path, stream_id: str) -> None:
    """Raises: OSError."""
    replace_file(_request_file(folder, stream_id), stream_id.encode())


def is_rekey_requested(folder: Path, stream_id: str) -> bool:
    return _request_file(folder, stream_id).exists()


async def rekey_on_request(folder: Path, rekey: Callable[[str], None]) -> None:
    """Process requests until cancelled. `rekey` raises KeyError for a stream that is not encrypted, or OSError.

    A request that fails stays: the next configuration may have that stream, the disk may have space.
    """
    await asyncio.to_thread(make_directory, folder, mode=0o750)
    problems: dict[Path, str] = {}
    while True:
        found = await asyncio.to_thread(_grant_requests, folder, rekey)
        for request, problem in found.items() - problems.items():
            log.error("cannot rotate the key of a stream yet; request=%s problem=%s", request.name, problem)
        problems = found
        await asyncio.sleep(CHECK_S)


def _grant_requests(folder: Path, rekey: Callable[[str], None]) -> dict[Path, str]:
    """The problems of the requests that remain."""
    problems = {}
    for request in sorted(folder.glob("[!.]*"))[:MAX_REQUESTS]:
        try:
            with request.open("rb") as file:
                rekey(file.read(MAX_STREAM_ID_BYTES).decode(errors="replace"))
            request.unlink()
        except KeyError as error:
            problems[request] = f"no encrypted stream with this id: {error}"
        except OSError as error:
            problems[request] = str(error)
    return problems


def _request_file(folder: Path, stream_id: str) -> Path:
    return folder / hashlib.sha256(stream_id.encode()).hexdigest()[:32]
