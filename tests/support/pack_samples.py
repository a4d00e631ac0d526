"""Linked readings, and signed messages that hold one or several of them."""

from collections.abc import Sequence

from protocol.ethereum.signer import Signer
from protocol.iomessage import EMPTY_CHAIN, ChainHead, IoMessage, hash_link
from protocol.iomessage.content import encode_binary_content, encode_json_content
from protocol.scalars import encode_scalar
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message

START_MS = 1_700_000_000_000
DEVICE = Signer(b"\x07" * 32)
STREAM = f"{DEVICE.address}/plant"
CHAIN = "a-chain-id-of-20-chr"


def linked_readings(count: int, head: ChainHead = EMPTY_CHAIN) -> list[IoMessage]:
    """Temperatures of a boiler, one per second."""
    readings: list[IoMessage] = []
    for number in range(head.position + 1, head.position + 1 + count):
        plain = IoMessage(
            id=f"id {number}", timestamp=START_MS + 1000 * number, publisher="8uCZTUZQLW5xtU9ffJXwur", tag="boiler",
            info_type="temperature", info_format="Cel/cbor", content_data=encode_scalar(20 + number / 2),
        )  # fmt: skip
        readings.append(hash_link(plain, head))
        head = ChainHead.of(readings[-1])
    return readings


def binary_content(readings: Sequence[IoMessage]) -> str:
    return encode_binary_content([each.to_bytes() for each in readings])


def json_content(readings: Sequence[IoMessage]) -> str:
    return encode_json_content([each.to_json() for each in readings])


def unsigned_message(content: str, number: int = 0, *, stream_id: str = STREAM, chain: str = CHAIN) -> StreamMessage:
    """The message at this place of a chain."""
    message_id = MessageID(stream_id, 0, START_MS + number, 0, DEVICE.address, chain)
    return StreamMessage(message_id, content, MessageRef(START_MS + number - 1, 0) if number else None)


def signed_message(content: str, number: int = 0, *, stream_id: str = STREAM, chain: str = CHAIN) -> StreamMessage:
    return sign_message(unsigned_message(content, number, stream_id=stream_id, chain=chain), DEVICE)
