"""The smallest gateway that keeps the rules of the link, for tests of devices. Bytes and time come in as arguments."""

from protocol.errors import WireError
from protocol.link import (
    Ack,
    Authenticator,
    Damaged,
    Direction,
    Frame,
    Hello,
    LinkDecoder,
    Message,
    Record,
    Sync,
    derive_session_key,
    frame_of,
    message_in,
)

RETRY_MS = 100
SYNC_EVERY_MS = 250
WORD_EVERY_MS = 500


class SmallGateway:
    """Its journal survives `restart`, all else does not. A record is received at once and durable after `commit`."""

    def __init__(self, key: bytes | None = None) -> None:
        self.journal: list[Record] = []
        self.messages: list[Message] = []  # all others, in the order in which they came
        self.hello: Hello | None = None
        self._key = key
        self._restarts = 0
        self.restart()

    def restart(self) -> None:
        self._restarts += 1
        self._session = self._restarts % 255 + 1
        self._nonce = self._restarts.to_bytes(8, "big")
        self._decoder = LinkDecoder()
        self._authenticator: Authenticator | None = None
        self._is_open = False
        self._expected = 0
        self._received: list[Record] = []
        self._next_rseq = self._committed_rseq
        self._spoke_at_ms = self._asked_again_at_ms = -1_000_000

    @property
    def _committed_rseq(self) -> int:
        return self.journal[-1].rseq + 1 if self.journal else 0

    def commit(self) -> None:
        self.journal += self._received
        self._received = []

    def tick(self, now_ms: int) -> bytes:
        """What it says of its own accord."""
        if not self._is_open and now_ms - self._spoke_at_ms >= SYNC_EVERY_MS:
            self._spoke_at_ms = now_ms
            return frame_of(Sync(host_nonce=self._nonce, retry_ms=RETRY_MS), session=self._session).to_bytes()
        if self._is_open and now_ms - self._spoke_at_ms >= WORD_EVERY_MS:
            return self._acknowledge(now_ms)
        return b""

    def say(self, message: Message, *, seq: int = 0, is_nak: bool = False) -> bytes:
        frame = frame_of(message, session=self._session, seq=seq, is_nak=is_nak)
        return (self._authenticator.prove(frame) if self._authenticator else frame).to_bytes()

    def hear(self, data: bytes, now_ms: int) -> bytes:
        """What it answers."""
        return b"".join(self._answer(event, now_ms) for event in self._decoder.feed(data))

    def _answer(self, event: Frame | Damaged, now_ms: int) -> bytes:
        if isinstance(event, Damaged):
            return self._ask_again(now_ms)
        try:
            message = message_in(event)
            if isinstance(message, Hello):
                return self._greet(event, message, now_ms)
            if not self._is_open or event.session != self._session:
                return b""
            if self._authenticator:
                self._authenticator.check(event)
        except WireError:
            return b""
        if isinstance(message, Record):
            return self._take(message, event.seq, now_ms)
        self.messages.append(message)
        return b""

    def _greet(self, frame: Frame, hello: Hello, now_ms: int) -> bytes:
        if hello.host_nonce != self._nonce:
            if self._is_open:  # the device has lost the session
                self.restart()
            return b""
        if self._key is not None and not self._is_open:
            key = derive_session_key(self._key, host_nonce=self._nonce, boot_id=hello.boot_id, syncs=hello.syncs)
            authenticator = Authenticator(key, sends=Direction.TO_DEVICE)
            authenticator.check(frame)
            self._authenticator = authenticator
        self._is_open = True
        self.hello = hello
        return self._acknowledge(now_ms)

    def _take(self, record: Record, seq: int, now_ms: int) -> bytes:
        if seq == self._expected:
            self._expected = (self._expected + 1) % 256
            if record.rseq >= self._next_rseq:
                self._next_rseq = record.rseq + 1
                self._received.append(record)
        elif (seq - self._expected) % 256 < 128:
            return self._ask_again(now_ms)
        return self._acknowledge(now_ms)

    def _ask_again(self, now_ms: int) -> bytes:
        if not self._is_open or now_ms - self._asked_again_at_ms < RETRY_MS:
            return b""
        self._asked_again_at_ms = now_ms
        return self._acknowledge(now_ms, is_nak=True)

    def _acknowledge(self, now_ms: int, *, is_nak: bool = False) -> bytes:
        self._spoke_at_ms = now_ms
        return self.say(Ack(committed_rseq=self._committed_rseq), seq=self._expected, is_nak=is_nak)
