"""A client of the node that does only what tests of several nodes need, in few lines and without a clock of its own."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote
from urllib.request import Request, urlopen

from websockets.sync.client import connect

from protocol.ethereum.signer import Signer
from protocol.streamr.control import (
    BroadcastMessage,
    ControlMessage,
    PublishRequest,
    ResendLastRequest,
    ResendResponseNoResend,
    ResendResponseResent,
    SubscribeRequest,
    SubscribeResponse,
    UnicastMessage,
    parse_control_message,
)
from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.patience import PATIENCE_S


class MessageMaker:
    """Signed messages of one chain."""

    def __init__(self, signer: Signer, stream_id: str, chain: str = "chain") -> None:
        self._signer = signer
        self._stream_id = stream_id
        self._chain = chain
        self._last: MessageRef | None = None

    def make(self, content: object) -> StreamMessage:
        ref = next_message_ref(self._last, time.time_ns() // 1_000_000)
        message_id = MessageID(self._stream_id, 0, *ref, self._signer.address, self._chain)
        message = StreamMessage(message_id, json.dumps(content), prev_msg_ref=self._last)
        self._last = ref
        return sign_message(message, self._signer)


class SmallClient:
    """`address` is HOST:PORT of a node."""

    def __init__(self, address: str, signer: Signer) -> None:
        self._rest = f"http://{address}/api/v1"
        self._signer = signer
        self._token = self._log_in()
        url = f"ws://{address}/api/v1/ws?controlLayerVersion=2&messageLayerVersion=32"
        self._stack = ExitStack()
        self._socket = self._stack.enter_context(connect(url, open_timeout=PATIENCE_S))

    def close(self) -> None:
        self._stack.close()

    def make_public_stream(self, stream_id: str) -> None:
        self._post("/streams", {"id": stream_id, "name": "test"})
        for operation in ("stream_get", "stream_subscribe"):
            body = {"operation": operation, "anonymous": True}
            self._post(f"/streams/{quote(stream_id, safe='')}/permissions", body)

    def publish(self, *messages: StreamMessage) -> None:
        for message in messages:
            self._send(PublishRequest(request_id="p", stream_message=message, session_token=self._token))

    def subscribe(self, stream_id: str) -> None:
        self._send(SubscribeRequest(request_id="s", stream_id=stream_id, session_token=self._token))
        while not isinstance(self._receive(), SubscribeResponse):
            pass

    def read(self, count: int) -> list[str]:
        """The contents of the next so many messages."""
        return [next(self._broadcasts()) for _ in range(count)]

    def read_until(self, content: object) -> list[str]:
        """The contents of the next messages, up to and with this one."""
        contents: list[str] = []
        while not contents or contents[-1] != json.dumps(content):
            contents += self.read(1)
        return contents

    def resend_last(self, stream_id: str, count: int) -> list[str]:
        request = ResendLastRequest(request_id="r", stream_id=stream_id, number_last=count, session_token=self._token)
        self._send(request)
        contents = []
        while not isinstance(message := self._receive(), ResendResponseResent | ResendResponseNoResend):
            if isinstance(message, UnicastMessage):
                contents.append(message.stream_message.content)
        return contents

    def _broadcasts(self) -> Iterator[str]:
        while True:
            message = self._receive()
            if isinstance(message, BroadcastMessage):
                yield message.stream_message.content

    def _send(self, message: ControlMessage) -> None:
        self._socket.send(message.serialize())

    def _receive(self) -> ControlMessage:
        return parse_control_message(self._socket.recv(PATIENCE_S))

    def _log_in(self) -> str:
        challenge = self._post(f"/login/challenge/{self._signer.address}", None)
        answer = {
            "challenge": challenge,
            "signature": self._signer.sign_challenge(challenge["challenge"]),
            "address": self._signer.address,
        }
        return str(self._post("/login/response", answer)["token"])

    def _post(self, path: str, body: object) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if hasattr(self, "_token"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = b"" if body is None else json.dumps(body).encode()
        with urlopen(
            Request(self._rest + path, data=data, headers=headers, method="POST"), timeout=PATIENCE_S
        ) as reply:
            return dict(json.loads(reply.read() or b"{}"))
