"""Whatever a peer of the node sends, in a handshake, as tracker, neighbour or through a broker, is read or refused."""

import contextlib
import json

from node.mqtt_bridge.bridge import read_payload
from node.peers.dialects import NetworkLayer, Plain
from node.peers.handshake import read_hello
from node.tracker.status import read_status
from protocol.errors import WireError
from protocol.streamr.ids import MessageID
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import StreamMessage

_MESSAGE = StreamMessage(MessageID("stream", 0, 5, 0, "0xpublisher", "chain"), '{"a":1}').serialize()
_WRAPPED = json.dumps(
    {"version": "19.1.0", "code": 4, "payload": {"serializedControlLayerPayload": f'[2,0,"",{_MESSAGE}]'}}
)
SEEDS = [
    _MESSAGE.encode(),
    f"[{_MESSAGE},{_MESSAGE}]".encode(),
    _WRAPPED.encode(),
    b'{"streams":{"s::0":{"inboundNodes":["a"],"outboundNodes":["b"],"counter":3}},"singleStream":true}',
    b'{"streamPart":{"id":"s","partition":0,"neighbors":["a"],"counter":-1}}',
    b'{"stream":{"streamKey":"s::0","inboundNodes":["a"],"outboundNodes":["b"],"counter":3}}',
    b'{"version":"19.1.0","code":1,"payload":{"streamId":"s","streamPartition":0,"nodeAddresses":["a"],"counter":1}}',
    b'["4.4.3",1,"sender","stream-id",["address1","address2"]]',
    b'[1,2,"r","s",0,["ws://a"],1]',
    b"/network/ws?address=ws://host:80",
]


def fuzz_one(data: bytes) -> None:
    with contextlib.suppress(WireError):
        for message in read_payload(data):
            assert message.content
    with contextlib.suppress(WireError):
        read_status(decode_json(data))
    for dialect in (Plain(), NetworkLayer("me")):
        with contextlib.suppress(WireError):
            dialect.write_tracker(dialect.read_tracker(data))
        with contextlib.suppress(WireError):
            dialect.write_control(dialect.read_control(data))
    target = data.decode(errors="replace")
    with contextlib.suppress(WireError):
        hello = read_hello(target, {"streamr-peer-id": target, "streamr-peer-type": target})
        assert hello.peer_id
