"""The fast way to sealed binary messages that differ only in id, time, content and place in the chain.

The readings of one sensor are such messages. Everything they share is encoded once; one hash and a few joins remain.
The bytes are those of `seal(prototype.replace(…), head).to_bytes()`, to the last one.
"""

from hashlib import sha256
from typing import Final

from protocol.iomessage.as_bytes import HEADER, minimal_bytes
from protocol.iomessage.chain import ChainHead
from protocol.iomessage.fields import DOUBLE_ONE, TEXT_LIMITS, VERSION
from protocol.iomessage.message import IoMessage

_HASH_LENGTH_AT: Final = 16
_HASH_LENGTH: Final = b"\x00\x40"
_MAX_ID_BYTES: Final = TEXT_LIMITS["id"].hard
_ZERO: Final = b"\x00"
_HEADERS_REMEMBERED: Final = 64  # of one template; readings of one sensor differ little in length


class SealedTemplate:
    """What all messages like `prototype` share. Its id, timestamp, context, content and chain fields do not matter."""

    def __init__(self, prototype: IoMessage) -> None:
        self._prototype = prototype
        text = [(getattr(prototype, name) or "").encode() for name in TEXT_LIMITS]
        _, tag, group_id, publisher, auth_id, auth_group, _, _, _, info_type, info_format = text
        integers = [
            minimal_bytes(number or 0)
            for number in (prototype.sequence_number, prototype.sequence_total, prototype.priority)
        ]
        self._after_id = b"".join((tag, group_id, *integers))
        self._after_timestamp = publisher + auth_id + auth_group
        self._after_previous_hash = _ZERO + info_type + info_format
        self._lengths_after_id = tuple(map(len, (tag, group_id, *integers)))
        self._lengths_after_timestamp = tuple(map(len, (publisher, auth_id, auth_group)))
        self._lengths_after_previous_hash = (0, 1, len(info_type), len(info_format))
        self._headers: dict[tuple[int, ...], tuple[bytes, bytes]] = {}

    def seal(
        self,
        *,
        id: str,  # noqa: A002 - the document's name
        timestamp: int,
        content_data: bytes,
        head: ChainHead,
        context_data: bytes = b"",
    ) -> tuple[bytes, ChainHead]:
        """The next link after `head` in binary, and the head after it.

        Raises:
            Corrupt: the id or the timestamp is beyond its limit.
        """
        if not (id and id.isascii() and len(id) <= _MAX_ID_BYTES and 0 <= timestamp < DOUBLE_ONE):
            self._prototype.replace(id=id, timestamp=timestamp)  # which says what is wrong, if anything is
        encoded_id, position = id.encode(), head.position + 1
        previous_hash = b"" if head.hash is None else head.hash.encode()
        time, place = minimal_bytes(timestamp), minimal_bytes(position)
        lengths = (len(encoded_id), len(time), len(place), len(previous_hash), len(context_data), len(content_data))
        try:
            header, sealed_header = self._headers[lengths]
        except KeyError:
            header, sealed_header = self._new_headers(lengths)
        after_hash = b"".join((previous_hash, self._after_previous_hash, context_data, content_data))
        before_hash = b"".join((encoded_id, self._after_id, time, self._after_timestamp, place))
        digest = sha256(header + before_hash + after_hash).hexdigest()
        return b"".join((sealed_header, before_hash, digest.encode(), after_hash)), ChainHead(position, digest)

    def _new_headers(self, lengths: tuple[int, ...]) -> tuple[bytes, bytes]:
        """What stands in front of all messages whose parts have these lengths, before and after the hash is in."""
        id_bytes, time_bytes, place_bytes, previous_hash_bytes, context_bytes, content_bytes = lengths
        header = HEADER.pack(
            VERSION,
            id_bytes,
            *self._lengths_after_id,
            time_bytes,
            *self._lengths_after_timestamp,
            place_bytes,
            0,
            previous_hash_bytes,
            *self._lengths_after_previous_hash,
            context_bytes,
            content_bytes,
        )
        if len(self._headers) >= _HEADERS_REMEMBERED:
            self._headers.clear()
        sealed_header = header[:_HASH_LENGTH_AT] + _HASH_LENGTH + header[_HASH_LENGTH_AT + 2 :]
        self._headers[lengths] = header, sealed_header
        return header, sealed_header
