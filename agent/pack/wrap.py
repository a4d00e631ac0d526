"""Readings → linked ioMessages → signed StreamMessages → journal entries.

    Reading ──► ContentData (one CBOR item, or the bytes) ──► ioMessage, linked to the previous one
    ioMessages that are committed together ──► content: {"ioMessage": base64} for one, {"ioMessages": base64} for a pack
            of several, or the JSON embodiment; encrypted where the stream is
            ──► StreamMessage, signed, naming the previous one ──► Entry

Each process begins new chains: a random `msgChainId`, positions from 0. So nothing has to be recovered after a crash,
and a message that was signed but never committed leaves no gap in any chain that subscribers see. References still rise
across restarts, over all chains of the device (`agent/clock/references.py`), but for the way back from a clock that was
ahead, which begins new chains too.

Not for two threads at a time. All messages of one call carry the time of that call.
"""

import logging
import secrets
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, repeat
from typing import Final, NamedTuple

from agent.clock import ChainReferences, ClockReading
from agent.errors import StorageError
from agent.journal import Entry
from agent.pack.routing import Route
from drivers.reading import Reading
from protocol.clock import ClockContext, ExcursionNotice
from protocol.ethereum.signer import Signer
from protocol.iomessage import (
    EMPTY_CHAIN,
    RANDOM_BYTES,
    ChainLinker,
    Draft,
    IoMessage,
    LinkedTemplate,
    element_id,
    message_ids,
)
from protocol.iomessage.content import (
    BINARY_CONTENT,
    BINARY_PACK,
    MAX_PACK_BYTES,
    encode_binary_content,
    encode_json_content,
)
from protocol.publisher_chain import CHAIN_ID_RANDOM_BYTES
from protocol.reference import Reference, next_reference
from protocol.scalars import encode_scalar, scalar_format
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import EncryptedGroupKey
from protocol.streamr.stream_message.chain_writer import ChainWriter

MAX_CHAINS: Final = 2048  # at a time; beyond it the least recently used one ends, and its stream begins another
MAX_TEMPLATES: Final = 1024  # of one chain; a source with ever new sensors costs time, not memory
MAX_QUEUED_MS: Final = 60_000  # a reading's time this little behind the clock is by that clock
EARLIEST_MS: Final = 946_684_800_000  # 2000: an earlier time of a reading is by a clock that was not set yet
CONTENT_OVERHEAD_BYTES: Final = 8192  # more than all of a StreamMessage that is not the reading's own bytes
BASE64_GROWTH: Final = 2  # of bytes in base64, rounded up
ENCRYPTED_GROWTH: Final = 3  # the same, and then in hex, rounded up
JSON_GROWTH: Final = 4  # of an ioMessage in JSON, escaped in a StreamMessage, against binary; names may need escapes
_base64: Final = partial(b2a_base64, newline=False)
_message_ref: Final = partial(tuple.__new__, MessageRef)  # both are checked by the journal and by the signer
_entry: Final = partial(tuple.__new__, Entry)

log = logging.getLogger(__name__)


class EncryptedContent(NamedTuple):
    """A content as subscribers with the right key can read it."""

    content: str
    group_key_id: str
    new_group_key: EncryptedGroupKey | None  # on the message that announces the next key


Encrypt = Callable[[str, int], EncryptedContent]  # of a content at a time, now_ms; raises OSError


class RefusedReading(NamedTuple):
    """A reading that no message can hold, and why."""

    reading: Reading
    problem: str


class Group(NamedTuple):
    """Readings of one route, in their order."""

    route: Route
    readings: Sequence[Reading]
    source: str = ""  # whose tokens these readings carry, where tokens outlive the process


class Run(NamedTuple):
    """Journal entries of one lane and source, in their order, and the tokens of the readings in them."""

    lane: int
    entries: list[Entry]
    source: str  # empty where the tokens end with the process
    tokens: list[int | None]  # one for each reading


class Wrapped(NamedTuple):
    """The result of wrapping groups, in their order."""

    runs: list[Run]
    refused: list[RefusedReading]

    @classmethod
    def nothing(cls) -> "Wrapped":
        return cls([], [])

    def add(self, lane: int, entries: list[Entry], source: str, tokens: list[int | None]) -> None:
        """Neighbours of one lane and source share a run, because the journal appends a run at a time."""
        last = self.runs[-1] if self.runs else None
        if last is None or (last.lane, last.source) != (lane, source):
            self.runs.append(Run(lane, entries, source, tokens))
        else:
            last.entries.extend(entries)
            last.tokens.extend(tokens)


def chain_name(stream_id: str, partition: int, msg_chain_id: str) -> str:
    """The name of a chain in the journal, in archives and in gap notices."""
    return f"{stream_id}#{partition}/{msg_chain_id}"


class Chain:
    """One chain of one process: hash-links, signs and numbers readings."""

    def __init__(
        self,
        route: Route,
        *,
        signer: Signer,
        references: ChainReferences,
        ids: Iterator[str],
        max_payload_bytes: int,
        encrypt: Encrypt | None = None,
    ) -> None:
        """Raises ValueError if the route names no possible stream."""
        msg_chain_id = secrets.token_urlsafe(CHAIN_ID_RANDOM_BYTES)
        self._writer = ChainWriter(
            signer, stream_id=route.stream_id, stream_partition=route.partition, msg_chain_id=msg_chain_id
        )
        self.name = chain_name(route.stream_id, route.partition, msg_chain_id)
        self._device = signer.address
        self._priority = route.priority
        self._is_binary = route.content == "binary"
        self._references = references
        self._ids = ids
        self._encrypt = encrypt
        growth = BASE64_GROWTH if encrypt is None else ENCRYPTED_GROWTH
        self._max_content_bytes = (max_payload_bytes - CONTENT_OVERHEAD_BYTES) // growth
        self._max_readings = route.max_readings
        self._max_pack_bytes = min(MAX_PACK_BYTES, self._max_content_bytes)
        if not self._is_binary:
            self._max_pack_bytes //= JSON_GROWTH
        self._templates: dict[tuple[str, str, str, str], LinkedTemplate] = {}
        self._head = EMPTY_CHAIN
        self._last: MessageRef | None = None

    def wrap(
        self, readings: Iterable[Reading], clock: ClockReading, tokens: list[int | None], refused: list[RefusedReading]
    ) -> list[Entry]:
        """Messages with these readings, in their order; each token goes to `tokens`. No message can hold the `refused`.

        This is the hot path: what all messages of a call share is worked out once, and references count on within it.
        """
        reference = self._first_reference(clock.now_ms)
        first = _message_ref(reference)
        linker = ChainLinker(self._head)
        drafts = self._drafts(readings, clock, reference, tokens, refused)
        packs = self._packs(linker.link_all(drafts))
        sequences = count(first.sequence_number)
        columns = (self._sign_all(packs, first, clock.now_ms), repeat(self.name), repeat(first.timestamp), sequences)
        entries = list(map(_entry, zip(*columns, map(len, packs), strict=False)))
        if entries:
            self._head, self._last = linker.head, _message_ref(entries[-1][2:4])
        return entries

    def _packs(self, linked: Iterable[bytes]) -> list[list[bytes]]:
        """Group ioMessages into messages within the limits. One that is beyond the limit of bytes stands alone."""
        packs: list[list[bytes]] = []
        max_readings, max_bytes = self._max_readings, self._max_pack_bytes
        readings, free_bytes = max_readings, 0
        for message in linked:
            free_bytes -= len(message)
            if readings >= max_readings or free_bytes < 0:
                pack: list[bytes] = []
                packs.append(pack)
                readings, free_bytes = 0, max_bytes - len(message)
            pack.append(message)
            readings += 1
        return packs

    def _drafts(
        self,
        readings: Iterable[Reading],
        clock: ClockReading,
        first: Reference,
        tokens: list[int | None],
        refused: list[RefusedReading],
    ) -> list[Draft]:
        context, context_at_ms, context_data = clock.context_for(first), None, b""
        templates, max_content_bytes = self._templates, self._max_content_bytes
        drafts: list[Draft] = []
        for reading, message_id in zip(readings, self._ids):  # noqa: B905 - ids are endless
            sensor, quantity, value, unit, taken_at_ms, mime_type, token = reading
            try:
                content_data = value if isinstance(value, bytes) else encode_scalar(value)
                template = templates.get((sensor, quantity, unit, mime_type)) or self._new_template(reading)
            except ValueError as error:
                refused.append(RefusedReading(reading, str(error)))
                continue
            if len(content_data) > max_content_bytes:
                refused.append(_too_large(reading, content_data, max_content_bytes))
                continue
            if context is None and taken_at_ms >= EARLIEST_MS:
                context_data, context_at_ms = b"", None
            elif taken_at_ms != context_at_ms:  # neighbours were often taken in the same millisecond
                context_data = _context_of(context or clock.context_of_unset_time(), taken_at_ms, clock)
                context_at_ms = taken_at_ms
            tokens.append(token)
            drafts.append((template, message_id, taken_at_ms, content_data, context_data))
        return drafts

    def _sign_all(self, packs: Sequence[Sequence[bytes]], first: MessageRef, now_ms: int) -> Iterable[bytes]:
        if self._is_binary and self._encrypt is None:
            contents = [(BINARY_CONTENT if len(pack) == 1 else BINARY_PACK, _base64(b"".join(pack))) for pack in packs]
            return self._writer.write_run(contents, first, self._last)
        return self._write_each(map(self._content, packs), first, now_ms)

    def _write_each(self, contents: Iterable[str], first: MessageRef, now_ms: int) -> Iterator[bytes]:
        """Contents that JSON has to escape, or that are encrypted one by one."""
        previous = self._last
        for content, sequence in zip(contents, count(first.sequence_number)):
            current = _message_ref((first.timestamp, sequence))
            yield self._write(content, current, previous, now_ms)
            previous = current

    def _first_reference(self, now_ms: int) -> Reference:
        """After all that this chain has, and not before what the device's other chains allow."""
        given = self._references.next(self.name, now_ms)
        if self._last is None or given > self._last:
            return given
        return next_reference(Reference(*self._last), given.timestamp_ms)

    def _write(self, content: str, reference: MessageRef, previous: MessageRef | None, now_ms: int) -> bytes:
        if self._encrypt is None:
            return self._writer.write(content, reference, previous)
        text, group_key_id, new_group_key = self._encrypt(content, now_ms)
        return self._writer.write(text, reference, previous, group_key_id=group_key_id, new_group_key=new_group_key)

    def _content(self, pack: Sequence[bytes]) -> str:
        if self._is_binary:
            return encode_binary_content(pack)
        return encode_json_content([IoMessage.from_bytes(each).to_json() for each in pack])

    def _new_template(self, reading: Reading) -> LinkedTemplate:
        """What all messages of this sensor, quantity, unit and MIME type share."""
        sensor, quantity, _, unit, _, mime_type, _ = reading
        prototype = IoMessage(
            id="prototype",
            timestamp=0,
            publisher=element_id(self._device, sensor),
            tag=sensor,
            info_type=quantity,
            info_format=mime_type or scalar_format(unit),
            content_data=b"",
            sequence_number=0,
            sequence_total=0,
            priority=self._priority,
        )
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        template = self._templates[sensor, quantity, unit, mime_type] = LinkedTemplate(prototype)
        return template


class Wrapper:
    """All chains of this process, each begun by the first reading that needs it."""

    def __init__(
        self,
        signer: Signer,
        references: ChainReferences,
        *,
        max_payload_bytes: int,
        encryption: Callable[[str], Encrypt] | None = None,
        report: Callable[[ExcursionNotice], Group] | None = None,
    ) -> None:
        """`encryption`: gives the encryption of a stream by its id; raises KeyError for a stream without one.

        `report`: the event to commit with the first messages after references return from the future."""
        self._signer = signer
        self._references = references
        self._max_payload_bytes = max_payload_bytes
        self._encryption = encryption
        self._report = report
        self._ids = message_ids(secrets.token_bytes(RANDOM_BYTES))
        self._chains: dict[Route, Chain] = {}  # the one that was used last is the last

    def wrap(self, routed: list[Group], clock: ClockReading, wrapped: Wrapped) -> None:
        """Wrap everything in `routed`, which is empty afterwards, into `wrapped`.

        Raises: StorageError if references or keys cannot be stored now. Call it again with the same two arguments: what
        is wrapped stays so, and what is still in `routed` has changed nothing.
        """
        self._references.reserve(clock.now_ms)
        if any(self._is_lost_in_future(group.route, clock) for group in routed):
            self._return_to_present(routed, clock.now_ms)
        while routed:
            group, tokens, refused = routed[0], list[int | None](), list[RefusedReading]()
            try:
                entries = self._chain(group.route).wrap(group.readings, clock, tokens, refused)
            except (ValueError, KeyError) as error:
                wrapped.refused.extend(RefusedReading(reading, str(error)) for reading in group.readings)
            except OSError as error:
                raise StorageError(f"cannot store an encryption key: {error.strerror or error}") from error
            else:
                wrapped.add(group.route.priority, entries, group.source, tokens)
                wrapped.refused.extend(refused)
            del routed[0]

    def _is_lost_in_future(self, route: Route, clock: ClockReading) -> bool:
        chain = self._chains.get(route)
        return self._references.is_lost_in_future("" if chain is None else chain.name, clock)

    def _return_to_present(self, routed: list[Group], now_ms: int) -> None:
        """All streams begin new chains, so that no chain goes back."""
        self._chains.clear()
        notice = self._references.return_to(now_ms)
        log.error(
            "messages are dated in the future, new chains begin; ahead_s=%d chains=%d last_timestamp_ms=%d",
            (notice.last.timestamp_ms - now_ms) // 1000, notice.count, notice.last.timestamp_ms,
        )  # fmt: skip
        if self._report is not None:
            routed.insert(0, self._report(notice))

    def _chain(self, route: Route) -> Chain:
        """Raises ValueError if the route names no possible stream."""
        chain = self._chains.pop(route, None) or self._new_chain(route)
        if len(self._chains) >= MAX_CHAINS:
            ended = self._chains.pop(next(iter(self._chains)))
            self._references.drop(ended.name)
        self._chains[route] = chain
        return chain

    def _new_chain(self, route: Route) -> Chain:
        is_plain = route.encryption == "none"
        return Chain(
            route,
            signer=self._signer,
            references=self._references,
            ids=self._ids,
            max_payload_bytes=self._max_payload_bytes,
            encrypt=None if is_plain or self._encryption is None else self._encryption(route.stream_id),
        )


def _too_large(reading: Reading, content_data: bytes, max_bytes: int) -> RefusedReading:
    return RefusedReading(reading, f"{len(content_data)} bytes, more than the journal accepts ({max_bytes})")


def _context_of(context: ClockContext, taken_at_ms: int, clock: ClockReading) -> bytes:
    """The context with the monotonic clock at the time of the reading, as far as its timestamp tells."""
    waited_ms = clock.now_ms - taken_at_ms
    if not 0 <= waited_ms <= min(MAX_QUEUED_MS, clock.monotonic_ms):
        return context.to_bytes()
    return ClockContext(
        boot_id=context.boot_id,
        monotonic_ms=context.monotonic_ms - waited_ms,
        is_synchronised=context.is_synchronised,
    ).to_bytes()
