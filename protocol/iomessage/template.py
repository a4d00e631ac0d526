"""Fast writer of hash-linked binary messages that differ only in id, time, content and chain position.

The readings of one sensor are such messages. Everything they share is encoded once; one hash and a few joins remain.
The result equals `hash_link(prototype.replace(…), head).to_bytes()`.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias

from protocol.iomessage.as_bytes import HEADER, MINIMAL_WIDTHS, minimal_bytes
from protocol.iomessage.chain import ChainHead
from protocol.iomessage.fields import DOUBLE_ONE, TEXT_LIMITS, VERSION
from protocol.iomessage.message import IoMessage

if TYPE_CHECKING:
    from hashlib import _Hash

_HASH_LENGTH_AT: Final = 16
_HASH_LENGTH: Final = b"\x00\x40"
_MAX_ID_BYTES: Final = TEXT_LIMITS["id"].hard
_ZERO: Final = b"\x00"
_CACHED_HEADERS: Final = 64  # of one template; readings of one sensor differ little in length


class LinkedTemplate:
    """The shared parts of messages like `prototype`, whose id, timestamp, context, content and chain are ignored."""

    __slots__ = (
        "_lengths_after_id",
        "_lengths_after_previous_hash",
        "_lengths_after_timestamp",
        "_prototype",
        "after_id",
        "after_previous_hash",
        "after_timestamp",
        "headers",
    )

    def __init__(self, prototype: IoMessage) -> None:
        self._prototype = prototype
        text = [(getattr(prototype, name) or "").encode() for name in TEXT_LIMITS]
        _, tag, group_id, publisher, auth_id, auth_group, _, _, _, info_type, info_format = text
        integers = [
            minimal_bytes(number or 0)
            for number in (prototype.sequence_number, prototype.sequence_total, prototype.priority)
        ]
        self.after_id = b"".join((tag, group_id, *integers))
        self.after_timestamp = publisher + auth_id + auth_group
        self.after_previous_hash = _ZERO + info_type + info_format
        self._lengths_after_id = tuple(map(len, (tag, group_id, *integers)))
        self._lengths_after_timestamp = tuple(map(len, (publisher, auth_id, auth_group)))
        self._lengths_after_previous_hash = (0, 1, len(info_type), len(info_format))
        self.headers: dict[tuple[int, ...], tuple[_Hash, bytes]] = {}  # by the lengths of what varies

    def check(self, id: str, timestamp: int) -> None:  # noqa: A002 - the document's name
        """Raises Corrupt if no message can have these."""
        self._prototype.replace(id=id, timestamp=timestamp)

    def new_headers(self, lengths: tuple[int, ...]) -> "tuple[_Hash, bytes]":
        """The headers of messages whose parts have these lengths: hashed, without the hash; and with it."""
        id_bytes, time_bytes, position_bytes, previous_hash_bytes, context_bytes, content_bytes = lengths
        header = HEADER.pack(
            VERSION,
            id_bytes,
            *self._lengths_after_id,
            time_bytes,
            *self._lengths_after_timestamp,
            position_bytes,
            0,
            previous_hash_bytes,
            *self._lengths_after_previous_hash,
            context_bytes,
            content_bytes,
        )
        if len(self.headers) >= _CACHED_HEADERS:
            self.headers.clear()
        linked_header = header[:_HASH_LENGTH_AT] + _HASH_LENGTH + header[_HASH_LENGTH_AT + 2 :]
        self.headers[lengths] = sha256(header), linked_header
        return self.headers[lengths]


Draft: TypeAlias = tuple[LinkedTemplate, str, int, bytes, bytes]  # id, timestamp, content data, context data


class ChainLinker:
    """Links drafts to one chain. `head` is the head of the chain after the last draft."""

    def __init__(self, head: ChainHead) -> None:
        self.head = head

    def link_all(self, drafts: Iterable[Draft]) -> Iterator[bytes]:
        """The linked messages in binary, one by one. One loop without calls of its own: this is the hot path.

        Raises:
            Corrupt: an id or a timestamp is beyond its limit; `head` has not moved.
        """
        position, digest = self.head
        previous_hash = b"" if digest is None else digest.encode()
        for template, message_id, timestamp, content, context in drafts:
            if not (0 <= timestamp < DOUBLE_ONE and message_id and len(message_id) <= _MAX_ID_BYTES // 4):
                template.check(message_id, timestamp)
            position += 1
            encoded_id = message_id.encode()
            time = timestamp.to_bytes(MINIMAL_WIDTHS[timestamp.bit_length()])
            chain_position = position.to_bytes(MINIMAL_WIDTHS[position.bit_length()])
            lengths = (len(encoded_id), len(time), len(chain_position), len(previous_hash), len(context), len(content))
            hashed_header, linked_header = template.headers.get(lengths) or template.new_headers(lengths)
            before_hash = b"".join((encoded_id, template.after_id, time, template.after_timestamp, chain_position))
            after_hash = b"".join((previous_hash, template.after_previous_hash, context, content))
            hashed = hashed_header.copy()
            hashed.update(before_hash + after_hash)
            previous_hash = hashed.hexdigest().encode()
            yield b"".join((linked_header, before_hash, previous_hash, after_hash))
        self.head = ChainHead(position, previous_hash.decode() or None)
