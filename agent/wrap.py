"""Reading → sealed ioMessage → signed StreamMessage → journal entry.

    Reading ──► ContentData (one CBOR item, or the bytes) ──► ioMessage, sealed after the one before it
            ──► content: {"ioMessage": base64} or the JSON embodiment, encrypted where the stream is
            ──► StreamMessage, signed, naming the one before it ──► Entry

Each process begins new chains: a random `msgChainId`, positions from 0. So nothing has to be recovered after a crash, and
a message that was signed but never committed leaves no hole in any chain that others see. References still rise across
restarts, over all chains of the device (`agent/clock/references.py`).

Not for two threads at a time. All messages of one call carry the time of that call.
"""

import base64
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from agent.clock import ChainReferences, ClockReading
from agent.journal import Entry
from agent.routing import Route
from drivers.reading import Reading
from protocol.clock import ClockContext
from protocol.iomessage import EMPTY_CHAIN, RANDOM_BYTES, IoMessage, SealedTemplate, message_ids
from protocol.reference import Reference
from protocol.scalars import encode_scalar, scalar_format
from protocol.streamr import ChainWriter, EncryptedGroupKey, MessageRef, Signer

__all__ = ["Chain", "ChainLock", "Locked", "Refused", "Wrapped", "Wrapper", "chain_name"]

MSG_CHAIN_ID_BYTES: Final = 15  # 20 characters, as the network's own clients have them
MAX_TEMPLATES: Final = 1024  # of one chain; a source that invents sensors costs time, not memory
MAX_QUEUED_MS: Final = 60_000  # a reading's time this little behind the clock is by that clock
CONTENT_OVERHEAD_BYTES: Final = 8192  # more than all of a StreamMessage that is not the reading's own bytes
_NO_CONTEXT: Final = b""


class Locked(NamedTuple):
    """A content as subscribers with the right key can read it."""

    content: str
    group_key_id: str
    new_group_key: EncryptedGroupKey | None  # on the message with which a new key begins to be handed over


class ChainLock(Protocol):
    """Encrypts the contents of one stream."""

    def lock(self, content: str, now_ms: int) -> Locked: ...


class Refused(NamedTuple):
    """A reading that no message can hold, and why."""

    reading: Reading
    problem: str


class Wrapped(NamedTuple):
    """What a batch became, by lane; within a lane, in the order in which it came."""

    lanes: dict[int, list[Entry]]
    refused: list[Refused]


def chain_name(stream_id: str, partition: int, msg_chain_id: str) -> str:
    """The journal's, the archive's and the gap notices' name of a chain."""
    return f"{stream_id}#{partition}/{msg_chain_id}"


class Chain:
    """One chain of one process: seals, signs and numbers what it is given."""

    def __init__(
        self,
        route: Route,
        *,
        signer: Signer,
        references: ChainReferences,
        ids: Iterator[str],
        max_payload_bytes: int,
        lock: ChainLock | None = None,
    ) -> None:
        """Raises ValueError if the route names no possible stream."""
        msg_chain_id = secrets.token_urlsafe(MSG_CHAIN_ID_BYTES)
        self._writer = ChainWriter(
            signer, stream_id=route.stream_id, stream_partition=route.partition, msg_chain_id=msg_chain_id
        )
        self.name = chain_name(route.stream_id, route.partition, msg_chain_id)
        self._priority = route.priority
        self._is_binary = route.content == "binary"
        self._references = references
        self._ids = ids
        self._lock = lock
        self._max_content_bytes = (max_payload_bytes - CONTENT_OVERHEAD_BYTES) // 2  # base64, twice where encrypted
        self._templates: dict[tuple[str, str, str, str], SealedTemplate] = {}
        self._head = EMPTY_CHAIN
        self._last: MessageRef | None = None

    def wrap(self, reading: Reading, clock: ClockReading) -> Entry:
        """Raises ValueError if no message can hold the reading; then nothing was used up but an id."""
        content = self._content_data(reading)
        template = self._template(reading)
        return self.seal(template, reading.taken_at_ms, content, clock)

    def seal(self, template: SealedTemplate, timestamp_ms: int, content_data: bytes, clock: ClockReading) -> Entry:
        reference = self._references.next(self.name, clock.now_ms)
        context = clock.context_for(reference)
        sealed, self._head = template.seal(
            id=next(self._ids),
            timestamp=timestamp_ms,
            content_data=content_data,
            head=self._head,
            context_data=_NO_CONTEXT if context is None else _context_of(context, timestamp_ms, clock),
        )
        return Entry(self._sign(self._content(sealed), reference, clock.now_ms), self.name, *reference)

    def _sign(self, content: str, reference: Reference, now_ms: int) -> bytes:
        previous, self._last = self._last, MessageRef(*reference)
        if self._lock is None:
            return self._writer.write(content, self._last, previous)
        locked = self._lock.lock(content, now_ms)
        return self._writer.write(
            locked.content, self._last, previous, group_key_id=locked.group_key_id, new_group_key=locked.new_group_key
        )

    def _content(self, sealed: bytes) -> str:
        if self._is_binary:
            return f'{{"ioMessage":"{base64.b64encode(sealed).decode()}"}}'
        return IoMessage.from_bytes(sealed).to_json()

    def _content_data(self, reading: Reading) -> bytes:
        value = reading.value
        content = value if isinstance(value, bytes) else encode_scalar(value)
        if len(content) > self._max_content_bytes:
            raise ValueError(f"{len(content)} bytes are more than the journal takes, {self._max_content_bytes}")
        return content

    def _template(self, reading: Reading) -> SealedTemplate:
        key = (reading.sensor, reading.quantity, reading.unit, reading.mime_type)
        try:
            return self._templates[key]
        except KeyError:
            return self.add_template(key)

    def add_template(self, key: tuple[str, str, str, str]) -> SealedTemplate:
        """What all messages of this sensor, quantity, unit and MIME type share."""
        sensor, quantity, unit, mime_type = key
        prototype = IoMessage(
            id="prototype",
            timestamp=0,
            publisher=sensor,
            info_type=quantity,
            info_format=mime_type or scalar_format(unit),
            content_data=b"",
            sequence_number=0,
            sequence_total=0,
            priority=self._priority,
        )
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        template = self._templates[key] = SealedTemplate(prototype)
        return template


class Wrapper:
    """All chains of this process, each begun by the first reading that needs it."""

    def __init__(
        self,
        signer: Signer,
        references: ChainReferences,
        *,
        max_payload_bytes: int,
        locks: "ChainLocks | None" = None,
    ) -> None:
        self._signer = signer
        self._references = references
        self._max_payload_bytes = max_payload_bytes
        self._locks = locks
        self._ids = message_ids(secrets.token_bytes(RANDOM_BYTES))
        self._chains: dict[Route, Chain] = {}

    def wrap(self, routed: Iterable[tuple[Route, Reading]], clock: ClockReading) -> Wrapped:
        """Raises: StorageError, with nothing used up, if the disk does not let the references go on."""
        self._references.reserve(clock.now_ms)
        wrapped = Wrapped({}, [])
        for route, reading in routed:
            try:
                entry = self.chain(route).wrap(reading, clock)
            except ValueError as error:
                wrapped.refused.append(Refused(reading, str(error)))
            else:
                wrapped.lanes.setdefault(route.priority, []).append(entry)
        return wrapped

    def chain(self, route: Route) -> Chain:
        """Raises ValueError if the route names no possible stream."""
        try:
            return self._chains[route]
        except KeyError:
            chain = self._chains[route] = Chain(
                route,
                signer=self._signer,
                references=self._references,
                ids=self._ids,
                max_payload_bytes=self._max_payload_bytes,
                lock=None if route.encryption == "none" or self._locks is None else self._locks.of(route.stream_id),
            )
            return chain

    @property
    def chain_names(self) -> Sequence[str]:
        return [chain.name for chain in self._chains.values()]


class ChainLocks(Protocol):
    def of(self, stream_id: str) -> ChainLock: ...


def _context_of(context: ClockContext, taken_at_ms: int, clock: ClockReading) -> bytes:
    """The counter at the moment of the reading, as far as the clock that stamped it tells."""
    waited_ms = clock.now_ms - taken_at_ms
    if not 0 <= waited_ms <= min(MAX_QUEUED_MS, clock.monotonic_ms):
        return context.to_bytes()
    return ClockContext(
        boot_id=context.boot_id,
        monotonic_ms=context.monotonic_ms - waited_ms,
        is_synchronised=context.is_synchronised,
    ).to_bytes()
