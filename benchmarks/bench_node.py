"""The node: publishing against its minimum cost, resends, and the memory of idle connections.

Only the CPU time of the process of the node counts, as the kernel reports it, not that of the clients.
"""

import itertools
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness import Figure, cpu_seconds_per_call
from benchmarks.process_tree import cpu_s, rss_bytes
from node.limits import NO_LIMITS, Quota
from node.storage.database import open_writer
from node.storage.messages import Entry, MessageWriter
from node.streams import StreamPart
from protocol.ethereum.signer import Signer
from protocol.iomessage.content import BINARY_CONTENT
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.chain_writer import ChainWriter
from protocol.streamr.stream_message.signing import Verifier

PUBLISHED = 8_000
SUBSCRIBERS = 10
RESENT = 100_000
IDLE_CONNECTIONS = 400
TIMEOUT_S = 120

SIGNER = Signer(b"\x11" * 32)
STREAM = "bench"
SETTINGS = f"""
[limits]
max_requests_per_s = 1_000_000
[[streams]]
id = "{STREAM}"
publishers = ["{SIGNER.address}"]
subscribers = ["public"]
"""
ECHO_SERVER = """
import asyncio, sys
from websockets.asyncio.server import serve
async def echo(connection):
    async for message in connection:
        await connection.send(message)
async def main():
    async with serve(echo, "127.0.0.1", 0, compression=None) as server:
        print("echo listens; address=127.0.0.1:%d" % server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
        await server.serve_forever()
asyncio.run(main())
"""


def measure() -> Iterator[Figure]:
    messages = list(_messages(PUBLISHED))
    bare_s = _verification_s(messages) + _echo_s(messages)
    with tempfile.TemporaryDirectory() as directory:
        publish_s = _publish_s(Path(directory) / "publish", messages)
        idle_kb = _idle_kb(Path(directory) / "idle")
        resend_s = _resend_s(Path(directory) / "resend")
    yield Figure(
        name="node: publish to 10 subscribers, × bare verification and one websocket echo",
        value=bare_s / publish_s,
        unit="×",
        at_least=0.4,
        note=f"verified, stored, broadcast: {publish_s * 1e6:.0f} µs of CPU each, bare {bare_s * 1e6:.0f}",
    )
    yield Figure(
        name="node: messages resent per second of CPU",
        value=1 / resend_s,
        unit="/s",
        at_least=100_000,
        note="the last 100,000, in order",
    )
    yield Figure(name="node: memory of an idle connection", value=idle_kb, unit="kB", at_most=50)


def _messages(count: int) -> Iterator[StreamMessage]:
    writer = ChainWriter(SIGNER, stream_id=STREAM, msg_chain_id="chain-of-a-benchmark")
    start_ms, previous = time.time_ns() // 1_000_000 - 10 * count, None
    for n in range(count):
        ref = MessageRef(start_ms + n, 0)
        yield parse_stream_message(writer.write(f"{'x' * 256}{n:06}".join(BINARY_CONTENT), ref, previous))
        previous = ref


def _verification_s(messages: list[StreamMessage]) -> float:
    """CPU time per message, over all messages: verifying the same one repeatedly costs a tenth less."""
    verifier, in_turn = Verifier(), itertools.cycle(messages)
    return cpu_seconds_per_call({"verify": lambda: verifier.verify(next(in_turn))}, statistics.median)["verify"]


def _echo_s(messages: list[StreamMessage]) -> float:
    """CPU time per message of an echo server with the `websockets` library, for the same requests."""
    with _process([sys.executable, "-c", ECHO_SERVER]) as (pid, address), _websocket(address, "/") as connection:
        frames = [_frame(_publish_request(message)) for message in messages]
        before_s = cpu_s(pid)
        _send_all(connection, frames)
        _read_bytes(connection, sum(len(frame) - 4 for frame in frames))
        return (cpu_s(pid) - before_s) / len(messages)


def _publish_s(data: Path, messages: list[StreamMessage]) -> float:
    frames = [_frame(_publish_request(message)) for message in messages]
    expected = sum(len(f'[2,0,"",{message.serialize()}]') + 4 for message in messages)
    with _node(data) as (pid, address), ExitStack() as stack:
        subscribers = [stack.enter_context(_client(address)) for _ in range(SUBSCRIBERS)]
        for subscriber in subscribers:
            subscriber.sendall(_frame(json.dumps([2, 9, "s", STREAM, 0, None], separators=(",", ":"))))
            _read_bytes(subscriber, len(f'[2,2,"s","{STREAM}",0]') + 2)
        publisher = stack.enter_context(_client(address))
        before_s = cpu_s(pid)
        reading = [threading.Thread(target=_read_bytes, args=(subscriber, expected)) for subscriber in subscribers]
        for thread in reading:
            thread.start()
        _send_all(publisher, frames)
        for thread in reading:
            thread.join()
        return (cpu_s(pid) - before_s) / len(messages)


def _resend_s(data: Path) -> float:
    """CPU time per resent message. The database is filled directly, because publishing would take long."""
    data.mkdir()
    _fill(data)
    with _node(data) as (pid, address), _client(address) as client:
        before_s = cpu_s(pid)
        client.sendall(_frame(json.dumps([2, 11, "r", STREAM, 0, RESENT, None], separators=(",", ":"))))
        _read_until(client, f'[2,5,"r","{STREAM}",0]'.encode())
        return (cpu_s(pid) - before_s) / RESENT


def _fill(data: Path) -> None:
    body = next(_messages(1)).serialize()
    connection = open_writer(data)
    writer, part = MessageWriter(connection, Quota("chains", NO_LIMITS)), StreamPart(STREAM, 0)
    now_s = int(time.time())
    for start in range(0, RESENT, 10_000):
        batch = [Entry(part, start + n, 0, SIGNER.address, "bench", body) for n in range(10_000)]
        writer.append(batch, now_s)
    connection.close()


def _idle_kb(data: Path) -> float:
    with _node(data) as (pid, address), ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(_client(address))
        before = rss_bytes(pid)
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(_client(address))
        return (rss_bytes(pid) - before) / IDLE_CONNECTIONS / 1_000


# --- processes ---


@contextmanager
def _node(data: Path) -> Iterator[tuple[int, str]]:
    data.mkdir(exist_ok=True)
    settings = data / "node.toml"
    settings.write_text(SETTINGS)
    command = [sys.executable, "-m", "agent", "node", "run", "--listen", "127.0.0.1:0", "--data", str(data)]
    with _process([*command, "--config", str(settings)]) as (pid, address):
        yield pid, address


@contextmanager
def _process(command: list[str]) -> Iterator[tuple[int, str]]:
    """Run a server that prints its address. Yields its process id and address."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"address=(\S+)", process.stderr.readline())
        assert found is not None, "the server did not start"
        yield process.pid, found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


# --- a client with little overhead ---


def _client(address: str) -> AbstractContextManager[socket.socket]:
    return _websocket(address, "/api/v1/ws?controlLayerVersion=2&messageLayerVersion=32")


@contextmanager
def _websocket(address: str, path: str) -> Iterator[socket.socket]:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert b" 101 " in head, head
        yield connection


def _publish_request(message: StreamMessage) -> str:
    return f'[2,8,"p",{message.serialize()},null]'


def _frame(text: str) -> bytes:
    """A client's frame, masked with zeros."""
    payload = text.encode()
    if len(payload) < 126:
        return bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload
    return b"\x81\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


def _send_all(connection: socket.socket, frames: list[bytes]) -> None:
    def send() -> None:
        for start in range(0, len(frames), 100):
            connection.sendall(b"".join(frames[start : start + 100]))

    threading.Thread(target=send, daemon=True).start()


def _read_bytes(connection: socket.socket, count: int) -> None:
    while count > 0:
        data = connection.recv(min(count, 1 << 20))
        assert data, "the connection ended too soon"
        count -= len(data)


def _read_until(connection: socket.socket, end: bytes) -> None:
    tail = b""
    while not tail.endswith(end):
        data = connection.recv(1 << 20)
        assert data, "the connection ended too soon"
        tail = (tail + data)[-len(end) :]
