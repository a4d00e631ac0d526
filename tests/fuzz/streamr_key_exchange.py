"""Any content, properly signed, at both sides of the key exchange: an outcome, never an exception.

The first byte picks the message type and the version; the rest is the content, which we sign.
"""

import functools

from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.exchange import key_exchange_stream_id
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_publisher import KeyPublisher
from protocol.streamr.group_keys.key_subscriber import KeySubscriber
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message import MessageType, StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.streamr_vectors import load_rsa_key_pair, load_vectors

PEM: str = load_vectors("rsa")[0]["publicKeyPem"]
SEEDS = [
    bytes([first]) + content.encode()
    for first, content in (
        (6, encode_json(["r", "s", PEM, ["k"]])),
        (7, encode_json(["r", "s", [["k", "00" * 512]]])),
        (8, encode_json(["s", [["k", "00" * 512]]])),
        (9, encode_json(["r", "s", "CODE", "message", ["k"]])),
        (
            1,
            encode_json({"requestId": "r", "streamId": "s", "publicKey": PEM, "range": {"start": 0, "end": 9}}),
        ),
        (2, encode_json({"requestId": "r", "streamId": "s", "keys": [{"groupKey": "00" * 512, "start": 1}]})),
        (3, encode_json({"streamId": "s", "groupKey": "00" * 512, "start": 1})),
        (4, encode_json({"requestId": "r", "streamId": "s", "code": "CODE", "message": "message"})),
    )
]
PUBLISHER, SUBSCRIBER = Signer(b"\x01" * 32), Signer(b"\x02" * 32)
KEY = GroupKey("k", b"\x03" * 32)
STREAM, REQUEST = "s", "r"


@functools.cache
def rsa_key_pair() -> RsaKeyPair:
    return load_rsa_key_pair(load_vectors("rsa")[0]["privateKeyPem"])


def fuzz_one(data: bytes) -> None:
    content = data[1:].decode(errors="replace")
    if not content:
        return
    message_type, version = MessageType(27 + data[0] % 5), 31 + data[0] // 5 % 2
    fuzz_publisher(posted(SUBSCRIBER, PUBLISHER, message_type, content, version))
    fuzz_subscriber(posted(PUBLISHER, SUBSCRIBER, message_type, content, version), version)


def posted(sender: Signer, recipient: Signer, message_type: MessageType, content: str, version: int) -> StreamMessage:
    message_id = MessageID(key_exchange_stream_id(recipient.address), 0, 1, 0, sender.address, "chain")
    message = StreamMessage(message_id, content, message_type=message_type, version=version)
    return sign_message(message, sender)


def fuzz_publisher(message: StreamMessage) -> None:
    publisher = KeyPublisher(PUBLISHER, "chain", lambda *_: True)
    publisher.add_key(STREAM, KEY, MessageRef(0, 0))
    publisher.answer(message, now_ms=1)
    publisher.rekey(STREAM, GroupKey("next", KEY.key), now_ms=2)


def fuzz_subscriber(message: StreamMessage, version: int) -> None:
    subscriber = KeySubscriber(SUBSCRIBER, "chain", rsa_key_pair(), version=version)
    subscriber.request_keys(PUBLISHER.address, STREAM, REQUEST, 0, group_key_ids=[KEY.group_key_id])
    subscriber.receive(message)
    subscriber.receive(message)
    subscriber.tick(100_000)
    assert subscriber.next_deadline_ms is None, "a request is pending for ever"
