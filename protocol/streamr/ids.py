"""The identity of a message, and the references that link the messages of one publisher to a chain.

These values are named tuples that check their fields without a call, because two are built for every message read:
frozen dataclasses would cost more than a parser may take beside a signature check.
"""

from typing import NamedTuple, Self

from protocol.streamr.checks import FILLED_TEXT, TEXT, WHOLE_NUMBER, refuse


class _MessageRefFields(NamedTuple):
    timestamp: int  # ms
    sequence_number: int


class MessageRef(_MessageRefFields):
    """The reference of a message in its chain. References are ordered by timestamp, then by sequence number."""

    __slots__ = ()

    def __new__(cls, timestamp: int, sequence_number: int) -> Self:
        if type(timestamp) is not int or timestamp < 0:
            refuse("timestamp", timestamp, WHOLE_NUMBER)
        if type(sequence_number) is not int or sequence_number < 0:
            refuse("sequence_number", sequence_number, WHOLE_NUMBER)
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
        stream_partition: int,
        timestamp: int,
        sequence_number: int = 0,
        publisher_id: str = "",
        msg_chain_id: str = "",
    ) -> Self:
        if type(stream_id) is not str or not stream_id:
            refuse("stream_id", stream_id, FILLED_TEXT)
        if type(stream_partition) is not int or stream_partition < 0:
            refuse("stream_partition", stream_partition, WHOLE_NUMBER)
        if type(timestamp) is not int or timestamp < 0:
            refuse("timestamp", timestamp, WHOLE_NUMBER)
        if type(sequence_number) is not int or sequence_number < 0:
            refuse("sequence_number", sequence_number, WHOLE_NUMBER)
        if type(publisher_id) is not str:
            refuse("publisher_id", publisher_id, TEXT)
        if type(msg_chain_id) is not str:
            refuse("msg_chain_id", msg_chain_id, TEXT)
        fields = (stream_id, stream_partition, timestamp, sequence_number, publisher_id, msg_chain_id)
        return tuple.__new__(cls, fields)

    @property
    def ref(self) -> MessageRef:
        return MessageRef(self.timestamp, self.sequence_number)


def next_message_ref(previous: MessageRef | None, timestamp: int) -> MessageRef:
    """The reference of the message after `previous` in its chain, at the time `timestamp`.

    References strictly increase. If the clock stands still or steps back, the timestamp stays and the sequence number
    is incremented: peers drop a message that is older than its predecessor.
    """
    if previous is None or timestamp > previous.timestamp:
        return MessageRef(timestamp, 0)
    return MessageRef(previous.timestamp, previous.sequence_number + 1)
