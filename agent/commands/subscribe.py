"""`headgate subscribe`: read a stream from a node, trusting nothing but signatures."""

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent.errors import LinkDown, Rejected
from agent.exit_codes import ExitCode
from agent.keys import load_keys, passphrase_from
from agent.publish.backoff import Backoff
from agent.publish.node_connection import NodeConnection, NodeSettings, new_session
from agent.publish.node_url import NodeUrl
from agent.subscription import (
    AskResend,
    Locked,
    Lost,
    Opened,
    PublishKeyRequest,
    Subscription,
    SubscriptionEvent,
    Unverified,
)
from agent.subscription_report import as_json_line, as_text_line
from protocol.errors import WireError
from protocol.streamr import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    OrderingRules,
    PublishRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResent,
    RsaKeyPair,
    Signer,
    StreamMessage,
    SubscribeRequest,
    UnicastMessage,
    parse_control_message,
)
from protocol.streamr.key_exchange import KeySubscriber, key_exchange_stream_id

DESCRIPTION = (
    "Read a stream from a node: every message verified, in order, decrypted where it is encrypted and the publisher"
    " gives us the key; what is missing is asked for again. Ends with 1 if anything was unverified, unreadable or lost."
)
DEFAULT_NODE = "http://127.0.0.1:7070"
CHAIN_ID_BYTES = 15
FILL_RULES = OrderingRules(propagation_timeout_ms=1_000, resend_timeout_ms=2_000, max_gap_requests=5)
LAST_REQUEST = "last"
_IS_BAD = (Unverified, Locked, Lost)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", metavar="STREAM", help="the id of the stream")
    parser.add_argument(
        "--node", type=_node_url, default=DEFAULT_NODE, metavar="URL", help=f"whom to ask (default: {DEFAULT_NODE})"
    )
    parser.add_argument("--partition", type=_count, default=0, metavar="N", help="of the stream (default: 0)")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="log in and ask for stream keys with this key file")
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="of the key file, if it has one")
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="certificates to trust instead of the system's")
    parser.add_argument("--last", type=_count, default=0, metavar="N", help="begin with the last N stored messages")
    parser.add_argument("--count", type=_count, default=None, metavar="N", help="end after N messages")
    parser.add_argument("--timeout", type=float, default=None, metavar="S", help="end when nothing came for S seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    signer = None if arguments.keys is None else _load_signer(arguments)
    return asyncio.run(_Reader(arguments, signer).run())


class _Reader:
    """One run of the command: connections one after the other, one subscription over all of them."""

    def __init__(self, arguments: argparse.Namespace, signer: Signer | None) -> None:
        self._arguments = arguments
        self._signer = signer
        self._settings = NodeSettings(url=arguments.node, ca_file=arguments.ca_file)
        self._session = None if signer is None else new_session(self._settings, signer)
        self._subscription = Subscription(lambda: secrets.token_hex(16), FILL_RULES)
        self._key_stream = None if signer is None else key_exchange_stream_id(signer.address)
        self._messages = 0
        self._exit_code = ExitCode.OK
        self._heard_at_s = time.monotonic()

    async def run(self) -> ExitCode:
        """Raises: LinkDown, if the first connection fails; Rejected, if we may not read the stream."""
        failures = 0
        while not self._is_done():
            try:
                await self._read(await NodeConnection.open(self._settings, self._session))
            except LinkDown as problem:
                if not failures and not self._messages:
                    raise
                failures += 1
                print(f"headgate: {problem}; trying again", file=sys.stderr)
                await asyncio.sleep(Backoff().wait_s(failures, random.random()))  # noqa: S311 - no secret
        return self._exit_code

    async def _read(self, connection: NodeConnection) -> None:
        try:
            await self._ask(connection)
            frames = connection.frames()
            pending = asyncio.ensure_future(anext(frames))
            try:
                while not self._is_done():
                    await asyncio.wait({pending}, timeout=self._wait_s())
                    if pending.done():
                        frame, pending = pending.result(), asyncio.ensure_future(anext(frames))
                        await self._hear(connection, frame)
                    await self._tell(connection, self._subscription.tick(_now_ms()))
            finally:
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, LinkDown):
                    await pending
        finally:
            await connection.close()

    async def _ask(self, connection: NodeConnection) -> None:
        token, stream, partition = await connection.token(), self._arguments.stream, self._arguments.partition
        if self._key_stream is not None:
            keys = SubscribeRequest(request_id="keys", stream_id=self._key_stream, session_token=token)
            await connection.send(keys)
        await connection.send(
            SubscribeRequest(request_id="live", stream_id=stream, stream_partition=partition, session_token=token)
        )
        if self._arguments.last and not self._messages:
            await connection.send(
                ResendLastRequest(
                    request_id=LAST_REQUEST,
                    stream_id=stream,
                    stream_partition=partition,
                    number_last=self._arguments.last,
                    session_token=token,
                )
            )

    async def _hear(self, connection: NodeConnection, frame: bytes) -> None:
        try:
            heard = parse_control_message(frame)
        except WireError as problem:
            print(f"headgate: the node said what cannot be read: {problem}", file=sys.stderr)
            return
        match heard:
            case BroadcastMessage() | UnicastMessage():
                await self._take(connection, heard.stream_message)
            case ErrorResponse():
                self._complain(heard)
            case ResendResponseResent() | ResendResponseNoResend():
                pass

    async def _take(self, connection: NodeConnection, message: StreamMessage) -> None:
        self._heard_at_s = time.monotonic()
        stream_id, partition, *_ = message.message_id
        if stream_id == self._key_stream:
            await self._tell(connection, self._subscription.take_key_message(message, _now_ms()))
        elif (stream_id, partition) == (self._arguments.stream, self._arguments.partition):
            await self._tell(connection, self._subscription.take(message, _now_ms()))
        if self._subscription.wants_keys:
            await self._tell(connection, self._subscription.use_keys(await self._new_keys(), _now_ms()))

    async def _new_keys(self) -> KeySubscriber | None:
        """Made only when needed: an RSA key takes seconds on a small device."""
        if self._signer is None:
            return None
        pair = await asyncio.to_thread(RsaKeyPair.generate)
        return KeySubscriber(self._signer, secrets.token_urlsafe(CHAIN_ID_BYTES), pair)

    async def _tell(self, connection: NodeConnection, events: Sequence[SubscriptionEvent]) -> None:
        for event in events:
            if self._is_done():
                return
            match event:
                case AskResend():
                    await connection.send(self._resend_request(event, await connection.token()))
                case PublishKeyRequest(message=message):
                    await connection.send(_publish_request(message, await connection.token()))
                case _:
                    self._show(event)

    def _show(self, event: SubscriptionEvent) -> None:
        line = as_json_line(event) if self._arguments.json else as_text_line(event)
        print(line, flush=True)
        self._messages += isinstance(event, Opened | Unverified | Locked)
        if isinstance(event, _IS_BAD):
            self._exit_code = ExitCode.NO

    def _complain(self, error: ErrorResponse) -> None:
        """Raises: Rejected, if it is the subscription itself that is refused."""
        problem = f"{self._settings.url}: {error.error_code}: {error.error_message}"
        if error.request_id == "live":
            is_stranger = error.error_code == "PERMISSION_DENIED" and self._arguments.keys is None
            hint = "; --keys FILE asks as someone who may, such as the device itself" if is_stranger else ""
            raise Rejected(problem + hint)
        print(f"headgate: {problem}", file=sys.stderr)

    def _resend_request(self, event: AskResend, token: str | None) -> ControlMessage:
        gap = event.gap
        return ResendRangeRequest(
            request_id=f"gap-{secrets.token_hex(8)}",
            stream_id=self._arguments.stream,
            stream_partition=self._arguments.partition,
            from_msg_ref=gap.from_ref,
            to_msg_ref=gap.to_ref,
            publisher_id=gap.chain.publisher_id,
            msg_chain_id=gap.chain.msg_chain_id,
            session_token=token,
        )

    def _wait_s(self) -> float | None:
        waits = []
        if self._arguments.timeout is not None:
            waits.append(self._heard_at_s + self._arguments.timeout - time.monotonic())
        if (deadline_ms := self._subscription.next_deadline_ms) is not None:
            waits.append((deadline_ms - _now_ms()) / 1000)
        return max(min(waits), 0.0) if waits else None

    def _is_done(self) -> bool:
        if self._arguments.count is not None and self._messages >= self._arguments.count:
            return True
        timeout_s = self._arguments.timeout
        return timeout_s is not None and time.monotonic() - self._heard_at_s >= timeout_s


def _publish_request(message: StreamMessage, token: str | None) -> PublishRequest:
    return PublishRequest(request_id="ask", stream_message=message, session_token=token)


def _load_signer(arguments: argparse.Namespace) -> Signer:
    keys = load_keys(
        arguments.keys, lambda: passphrase_from(arguments.passphrase_file, os.environ, prompt="Passphrase: ")
    )
    return Signer(keys.identity.reveal())


_STARTED_AT_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def _now_ms() -> int:
    """UTC, as it was when the program began: what waits by it must not be moved by a clock that is set."""
    return _STARTED_AT_MS + time.monotonic_ns() // 1_000_000


def _node_url(text: str) -> NodeUrl:
    try:
        return NodeUrl.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count")
    return int(text)
