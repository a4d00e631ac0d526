"""One signed message as the oracle reads it: verified, decrypted, with every reading of its pack."""

import binascii
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from agent.pack.wrap import chain_name
from protocol.errors import Corrupt, WireError
from protocol.iomessage import IoMessage
from protocol.iomessage.content import decode_content
from protocol.scalars import decode_scalar
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, Verifier

QUANTITY: Final = "count"  # of the devices of the bench

GroupKeys = Mapping[str, Mapping[str, GroupKey]]  # by stream, by key id


class Sensor(NamedTuple):
    publisher: str
    name: str


class Message(NamedTuple):
    text: bytes
    identity: MessageID
    previous: tuple[int, int] | None
    readings: tuple[IoMessage, ...]

    @property
    def device(self) -> str:
        return self.identity.publisher_id

    @property
    def chain(self) -> str:
        """As the device calls the chain."""
        return chain_name(self.identity.stream_id, self.identity.stream_partition, self.identity.msg_chain_id)

    def numbers(self) -> Iterator[tuple[Sensor, int]]:
        """The numbers that devices of the bench sent."""
        for reading in self.readings:
            if reading.info_type == QUANTITY:
                number = decode_scalar(reading.content_data or b"")
                assert isinstance(number, int | float)
                yield Sensor(self.device, reading.tag or ""), int(number)


class MessageReader:
    def __init__(self, keys: GroupKeys) -> None:
        self._keys = keys
        self._verifier = Verifier()

    def read(self, text: bytes) -> Message:
        """Raises: WireError with what is wrong, also if the signature is not valid."""
        message = parse_stream_message(text)
        if self._verifier.verify(message) is not Verdict.VERIFIED:
            raise Corrupt(f"invalid signature: {text[:80]!r}")
        try:
            readings = decode_content(self._decrypt(message))
        except (WireError, ValueError, KeyError, binascii.Error) as error:
            raise Corrupt(f"unreadable message: {error}: {text[:80]!r}") from error
        return Message(text, identity_of(message), message.prev_msg_ref, tuple(readings))

    def _decrypt(self, message: StreamMessage) -> str:
        if message.encryption_type is EncryptionType.NONE:
            return message.content
        keys = self._keys[message.message_id.stream_id]
        return decrypt_message(message, keys[message.group_key_id or ""]).content


def identity_of(message: StreamMessage) -> MessageID:
    """The id of a message, with the publisher in lower case."""
    return message.message_id._replace(publisher_id=message.message_id.publisher_id.lower())
