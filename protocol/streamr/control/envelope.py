"""Fast paths of control version 2: wrap the text of a stream message unparsed, and read the id in a broadcast.

The results equal those of `BroadcastMessage`, `UnicastMessage` and `PublishRequest` for the same stream message.
"""

import orjson

from protocol.streamr.ids import MessageID
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message.peek import message_id_of


def broadcast_text(stream_message: str) -> str:
    """The broadcast of an unchanged message."""
    return f'[2,0,"",{stream_message}]'


def unicast_text(request_id: str, stream_message: str) -> str:
    """The response to a resend request with an unchanged message."""
    return f"[2,1,{encode_json(request_id)},{stream_message}]"


def publish_frame(request_id: str, stream_message: bytes, session_token: str | None) -> bytes:
    """The request to publish an unchanged message: the bytes that were signed and stored are the bytes sent."""
    return b"[2,8,%b,%b,%b]" % (orjson.dumps(request_id), stream_message, orjson.dumps(session_token))


def peek_broadcast_id(frame: str | bytes) -> MessageID | None:
    """The id of the message in a broadcast; None for any other frame."""
    try:
        parsed = orjson.loads(frame)
    except orjson.JSONDecodeError:
        return None
    match parsed:
        case [2, 0, _, [_, message_id, *_]]:
            return message_id_of(message_id)
    return None
