"""How a message is told from every other, and how the messages of one publisher form a chain.

These values are tuples with names, because two are made for every message read: a frozen dataclass costs
three times as much, and together that is more than the parser may spend beside a signature check.
"""

from typing import NamedTuple, Self

from protocol.streamr.checks import check_count, check_filled_text, check_text

__all__ = ["MessageID", "MessageRef", "next_message_ref"]


class _MessageRefFields(NamedTuple):
    timestamp: int  # ms
    sequence_number: int


class MessageRef(_MessageRefFields):
    """A place in a chain. References are ordered as messages are: by timestamp, then by sequence number."""

    __slots__ = ()

    def __new__(cls, timestamp: int, sequence_number: int) -> Self:
        check_count("timestamp", timestamp)
        check_count("sequence_number", sequence_number)
        return tuple.__new__(cls, (timestamp, sequence_number))


class _MessageIDFields(NamedTuple):
    stream_id: str
    stream_partition: int
    timestamp: int  # ms
    sequence_number: int
    publisher_id: str
    msg_chain_id: str


class MessageID(_MessageIDFields):
    """The identity of a message. The publisher and the chain may be empty: legacy messages have neither."""

    __slots__ = ()

    def __new__(
        cls,
        stream_id: str,
        stream_partition: int = 0,
        timestamp: int = 0,
        sequence_number: int = 0,
        publisher_id: str = "",
        msg_chain_id: str = "",
    ) -> Self:
        check_filled_text("stream_id", stream_id)
        check_count("stream_partition", stream_partition)
        check_count("timestamp", timestamp)
        check_count("sequence_number", sequence_number)
        check_text("publisher_id", publisher_id)
        check_text("msg_chain_id", msg_chain_id)
        fields = (stream_id, stream_partition, timestamp, sequence_number, publisher_id, msg_chain_id)
        return tuple.__new__(cls, fields)

    @property
    def ref(self) -> MessageRef:
        return MessageRef(self.timestamp, self.sequence_number)


def next_message_ref(previous: MessageRef | None, timestamp: int) -> MessageRef:
    """The reference of the message after `previous` in its chain, made when the clock says `timestamp`.

    References strictly increase. Where the clock stands still or steps back, the previous timestamp stays and
    the sequence number counts on: peers drop a message that is older than its predecessor.
    """
    if previous is None or timestamp > previous.timestamp:
        return MessageRef(timestamp, 0)
    return MessageRef(previous.timestamp, previous.sequence_number + 1)
