"""Fast writer of hash-linked binary messages that differ only in id, time, content and chain position.

The readings of one sensor are such messages. Everything they share is encoded once; one hash and a few joins remain.
The result equals `hash_link(prototype.replace(…), head).to_bytes()`.
"""

from collections.abc import Iterable
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
_ZERO: Final = b"\x00"
_CACHED_HEADERS: Final = 64  # of one template; readings of one sensor differ little in length


class LinkedTemplate:
    """The shared parts of messages like `prototype`, whose id, timestamp, context, content and chain are ignored."""

    __slots__ = (
        "_headers",
        "_lengths_after_id",
        "_lengths_after_previous_hash",
        "_lengths_after_timestamp",
        "_prototype",
        "after_id",
        "after_previous_hash",
        "after_timestamp",
        "hashed_header",
        "lengths",
        "linked_header",
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
        self._headers: dict[tuple[int, ...], tuple[_Hash, bytes]] = {}  # by the lengths of what varies
        self.lengths: tuple[int, ...] = ()
        self.hashed_header: _Hash = sha256()  # without the hash, and …
        self.linked_header = b""  # … with it, for these lengths

    def check(self, id: str, timestamp: int) -> None:  # noqa: A002 - the document's name
        """Raises Corrupt if no message can have these."""
        self._prototype.replace(id=id, timestamp=timestamp)

    def use_headers(self, lengths: tuple[int, ...], id: str) -> None:  # noqa: A002
        """Headers for messages whose parts have these lengths; neighbours usually have the same.

        Raises Corrupt if no message can have such an id.
        """
        if lengths not in self._headers:
            self.check(id, 0)
            self._add_headers(lengths)
        self.hashed_header, self.linked_header = self._headers[lengths]
        self.lengths = lengths

    def _add_headers(self, lengths: tuple[int, ...]) -> None:
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
        if len(self._headers) >= _CACHED_HEADERS:
            self._headers.clear()
        linked_header = header[:_HASH_LENGTH_AT] + _HASH_LENGTH + header[_HASH_LENGTH_AT + 2 :]
        self._headers[lengths] = sha256(header), linked_header


Draft: TypeAlias = tuple[LinkedTemplate, str, int, bytes, bytes]  # id, timestamp, content data, context data


class ChainLinker:
    """Links drafts to one chain. `head` is the head of the chain after the last draft."""

    def __init__(self, head: ChainHead) -> None:
        self.head = head

    def link_all(self, drafts: Iterable[Draft]) -> list[bytes]:
        """The linked messages in binary. One loop without calls of its own: this is the hot path.

        Raises:
            Corrupt: an id or a timestamp is beyond its limit; `head` has not moved.
        """
        position, digest = self.head
        previous_hash = b"" if digest is None else digest.encode()
        linked: list[bytes] = []
        for template, message_id, timestamp, content, context in drafts:
            if not 0 <= timestamp < DOUBLE_ONE:
                template.check(message_id, timestamp)
            position += 1
            encoded_id = message_id.encode()
            time = timestamp.to_bytes(MINIMAL_WIDTHS[timestamp.bit_length()])
            chain_position = position.to_bytes(MINIMAL_WIDTHS[position.bit_length()])
            lengths = (len(encoded_id), len(time), len(chain_position), len(previous_hash), len(context), len(content))
            if lengths != template.lengths:
                template.use_headers(lengths, message_id)
            before_hash = b"".join((encoded_id, template.after_id, time, template.after_timestamp, chain_position))
            after_hash = b"".join((previous_hash, template.after_previous_hash, context, content))
            hashed = template.hashed_header.copy()
            hashed.update(before_hash + after_hash)
            previous_hash = hashed.hexdigest().encode()
            linked.append(b"".join((template.linked_header, before_hash, previous_hash, after_hash)))
        self.head = ChainHead(position, previous_hash.decode() or None)
        return linked
