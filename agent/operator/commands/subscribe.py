"""`headgate subscribe`: read a stream from a node, trusting nothing but signatures."""

import argparse
import asyncio
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ExitCode, LinkDown, Rejected
from agent.keys import load_keys, passphrase_from
from agent.operator.arguments import add_passphrase_argument, count
from agent.operator.contents import Locked, Opened, Unreadable
from agent.operator.readings import printable
from agent.operator.subscription import (
    AskResend,
    Broken,
    Lost,
    PublishKeyRequest,
    Subscription,
    SubscriptionEvent,
    Unverified,
)
from agent.operator.subscription_report import as_json_lines, as_text_lines
from agent.publish.node_connection import NodeConnection, new_session
from agent.publish.node_rest import NodeSettings
from agent.publish.node_url import NodeUrl
from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.control import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    PublishRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResent,
    SubscribeRequest,
    UnicastMessage,
    parse_control_message,
)
from protocol.streamr.group_keys.exchange import key_exchange_stream_id
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_subscriber import KeySubscriber
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ordering import OrderingRules
from protocol.streamr.stream_message import StreamMessage
from runtime.backoff import Backoff

DESCRIPTION = (
    "Read a stream from a node and print one line per reading: every message verified, in order, and decrypted if"
    " the publisher shares the key; missing messages are requested again. Exit code 1: some messages were unverified,"
    " unreadable or lost, or break the hash chain of the readings; the reasons are printed."
)
DEFAULT_NODE = "http://127.0.0.1:7070"
CHAIN_ID_BYTES = 15
FILL_RULES = OrderingRules(propagation_timeout_ms=1_000, resend_timeout_ms=2_000, max_gap_requests=5)
LAST_REQUEST = "last"
MAX_REASONS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", metavar="STREAM", help="id of the stream")
    parser.add_argument(
        "--node", type=_node_url, default=DEFAULT_NODE, metavar="URL", help=f"URL of the node (default: {DEFAULT_NODE})"
    )
    parser.add_argument("--partition", type=count, default=0, metavar="N", help="partition of the stream (default: 0)")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="key file to log in and to request stream keys with")
    add_passphrase_argument(parser, "passphrase of the key file, if it has one")
    parser.add_argument(
        "--group-keys",
        type=Path,
        metavar="FILE",
        help="keys of encrypted streams, exported by 'keys export-group-keys' on the publishing device",
    )
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="CA certificates (PEM) to trust instead of the system's"
    )
    parser.add_argument("--last", type=count, default=0, metavar="N", help="start with the last N stored messages")
    parser.add_argument("--count", type=count, default=None, metavar="N", help="exit after N readings")
    parser.add_argument(
        "--timeout", type=float, default=None, metavar="S", help="exit when nothing arrived for S seconds"
    )
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
        self._subscription = Subscription(lambda: secrets.token_hex(16), FILL_RULES, _given_keys(arguments))
        self._key_stream = None if signer is None else key_exchange_stream_id(signer.address)
        self._messages = 0
        self._readings = 0
        self._lines = 0
        self._problems: Counter[str] = Counter()
        self._received_at_s = time.monotonic()

    async def run(self) -> ExitCode:
        """Raises: LinkDown, if the first connection fails; Rejected, if we may not read the stream."""
        try:
            await self._read_until_done()
            if not self._has_enough():
                self._show_all(self._subscription.finish(_now_ms()))
        finally:
            self._summarise()
        return ExitCode.NO if self._problems else ExitCode.OK

    async def _read_until_done(self) -> None:
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

    async def _read(self, connection: NodeConnection) -> None:
        try:
            await self._request_stream(connection)
            frames = connection.frames()
            pending = asyncio.ensure_future(anext(frames))
            try:
                while not self._is_done():
                    await asyncio.wait({pending}, timeout=self._wait_s())
                    if pending.done():
                        frame, pending = pending.result(), asyncio.ensure_future(anext(frames))
                        await self._receive(connection, frame)
                    await self._handle_events(connection, self._subscription.tick(_now_ms()))
            finally:
                pending.cancel()
                await asyncio.wait({pending})  # awaiting it would hide that this task is cancelled too
                if not pending.cancelled():
                    pending.exception()  # retrieved, so that it is not logged; the link is closed anyway
        finally:
            await connection.close()

    async def _request_stream(self, connection: NodeConnection) -> None:
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

    async def _receive(self, connection: NodeConnection, frame: bytes) -> None:
        try:
            received = parse_control_message(frame)
        except WireError as problem:
            print(f"headgate: unreadable message from the node: {problem}", file=sys.stderr)
            self._problems["not a message of the protocol"] += 1
            return
        match received:
            case BroadcastMessage() | UnicastMessage():
                await self._accept(connection, received.stream_message)
            case ErrorResponse():
                self._report_error(received)
            case ResendResponseResent() | ResendResponseNoResend():
                pass

    async def _accept(self, connection: NodeConnection, message: StreamMessage) -> None:
        self._received_at_s = time.monotonic()
        stream_id, partition, *_ = message.message_id
        if stream_id == self._key_stream:
            await self._handle_events(connection, self._subscription.take_key_message(message, _now_ms()))
        elif (stream_id, partition) == (self._arguments.stream, self._arguments.partition):
            await self._handle_events(connection, self._subscription.take(message, _now_ms()))
        if self._subscription.needs_keys:
            await self._handle_events(connection, self._subscription.use_keys(await self._new_keys(), _now_ms()))
            self._received_at_s = time.monotonic()  # the time that making keys took is not the node's silence

    async def _new_keys(self) -> KeySubscriber | None:
        """Made only when needed: an RSA key takes seconds on a small device."""
        if self._signer is None:
            return None
        pair = await asyncio.to_thread(RsaKeyPair.generate)
        return KeySubscriber(self._signer, secrets.token_urlsafe(CHAIN_ID_BYTES), pair)

    async def _handle_events(self, connection: NodeConnection, events: Sequence[SubscriptionEvent]) -> None:
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

    def _show_all(self, events: Sequence[SubscriptionEvent]) -> None:
        for event in events:
            if not self._has_enough():
                self._show(event)

    def _show(self, event: SubscriptionEvent) -> None:
        """Print it, up to the requested number of readings; what cannot be read counts as one."""
        lines = as_json_lines(event) if self._arguments.json else as_text_lines(event)
        for line in lines:
            if self._has_enough():
                break
            print(line, flush=True)
            self._lines += isinstance(event, Opened | Unreadable | Unverified | Locked)
            self._readings += isinstance(event, Opened) and bool(event.readings)
        self._messages += isinstance(event, Opened | Unreadable | Unverified | Locked)
        match event:
            case Unverified(reason=reason) | Locked(reason=reason):
                self._problems[reason] += 1
            case Unreadable():
                self._problems["the readings cannot be decoded"] += 1
            case Broken():
                self._problems["the hash chain of the readings is broken"] += 1
            case Lost(gap=gap):
                self._problems[f"gap: {gap.cause}"] += 1

    def _summarise(self) -> None:
        """Print how many messages have problems, with one line per reason."""
        if not self._problems:
            if not self._messages and self._arguments.timeout is not None:
                print("headgate: no message arrived", file=sys.stderr)
            return
        arrived = f"{self._messages} messages that arrived, {self._readings} readings printed"
        print(f"headgate: {self._problems.total()} problems, of {arrived}:", file=sys.stderr)
        for reason, times in self._problems.most_common(MAX_REASONS):
            print(f"  {times:6}  {printable(reason)}", file=sys.stderr)

    def _report_error(self, error: ErrorResponse) -> None:
        """Raises: Rejected, if it is the subscription itself that is refused."""
        problem = f"{self._settings.url}: {error.error_code}: {error.error_message}"
        if error.request_id == "live":
            is_anonymous = error.error_code == "PERMISSION_DENIED" and self._arguments.keys is None
            hint = (
                "; log in with --keys FILE as a user with permission, such as the device itself" if is_anonymous else ""
            )
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
            waits.append(self._received_at_s + self._arguments.timeout - time.monotonic())
        if (deadline_ms := self._subscription.next_deadline_ms) is not None:
            waits.append((deadline_ms - _now_ms()) / 1000)
        return max(min(waits), 0.0) if waits else None

    def _has_enough(self) -> bool:
        return self._arguments.count is not None and self._lines >= self._arguments.count

    def _is_done(self) -> bool:
        if self._has_enough():
            return True
        timeout_s = self._arguments.timeout
        return timeout_s is not None and time.monotonic() - self._received_at_s >= timeout_s


def _publish_request(message: StreamMessage, token: str | None) -> PublishRequest:
    return PublishRequest(request_id="ask", stream_message=message, session_token=token)


def _given_keys(arguments: argparse.Namespace) -> dict[str, GroupKey]:
    if arguments.group_keys is None:
        return {}
    from agent.keys.group_keys import read_group_keys_of

    found = read_group_keys_of(arguments.stream, arguments.group_keys)
    if not found:
        print(f"headgate: {arguments.group_keys}: contains no key of stream {arguments.stream}", file=sys.stderr)
    return found


def _load_signer(arguments: argparse.Namespace) -> Signer:
    keys = load_keys(
        arguments.keys, lambda: passphrase_from(arguments.passphrase_file, os.environ, prompt="Passphrase: ")
    )
    return Signer(keys.identity.reveal())


_STARTED_AT_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def _now_ms() -> int:
    """UTC by the monotonic clock since the start, so that setting the clock moves no deadline."""
    return _STARTED_AT_MS + time.monotonic_ns() // 1_000_000


def _node_url(text: str) -> NodeUrl:
    try:
        url = NodeUrl.parse(text)
        url.host.encode("idna")  # as it is encoded when a connection is opened
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    return url
