"""One connection of `runtime/mqtt` to a broker that is a few lines of this test."""

import asyncio
import itertools
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivers.mqtt.driver import build
from runtime.errors import ConfigError, LinkDown
from runtime.mqtt.client import MAX_UNSENT_PACKETS, PacketClient
from runtime.mqtt.link import MAX_WAITING, MAX_WAITING_BYTES, MqttLink
from runtime.mqtt.settings import BrokerSettings
from testbed.processes import free_port
from tests.support.certificates import make_certificate
from tests.support.patience import PATIENCE_S
from tests.unit.runtime.mqtt.test_packets import publication

CONNACK = b"\x20\x02\0\0"
SUBACK = b"\x90\x03\0\1\1"
Broker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def with_broker(broker: Broker, test: Callable[[int], Awaitable[None]], tls: ssl.SSLContext | None = None) -> None:
    problems: list[BaseException] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await broker(reader, writer)
        except (AssertionError, asyncio.IncompleteReadError) as problem:
            problems.append(problem)
        finally:
            writer.close()

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
            await test(server.sockets[0].getsockname()[1])

    asyncio.run(run())
    assert not problems


async def packet(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(2)
    return head + await reader.readexactly(head[1])


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connack: bytes = CONNACK) -> None:
    assert (await packet(reader))[0] == 0x10
    writer.write(connack)
    assert (await packet(reader))[0] == 0x82
    writer.write(SUBACK)


def link_to(port: int, **changes: Any) -> MqttLink:
    return MqttLink(settings_for(port, **changes), max_packet_bytes=8 * MAX_WAITING_BYTES)


def settings_for(port: int, **changes: Any) -> BrokerSettings:
    usual: dict[str, Any] = {"host": "127.0.0.1", "version": "3.1.1", "connect_timeout_s": 5.0}
    return BrokerSettings(port=port, client_id="c", **usual | changes)


def test_what_was_acknowledged_before_closing_reaches_the_broker_although_it_still_sends() -> None:
    received = bytearray()

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(publication("a", b"1", number=7) + publication("a", bytes(100_000), number=8) * 5)
        while data := await reader.read(1000):
            received.extend(data)
            if received.endswith(b"\xe0\0"):
                break

    async def test(port: int) -> None:
        link = link_to(port)
        await link.open(["a"])
        await link.receive(1, 5)
        link.acknowledge([7])
        await link.close()  # in the same turn of the loop: nothing has been written yet
        link.acknowledge([8])

    with_broker(broker, test)
    assert received == b"\x40\x02\0\7" + b"\xe0\0"


def test_a_broker_that_does_not_answer_is_given_up_in_time() -> None:
    async def broker(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test(port: int) -> None:
        with pytest.raises(LinkDown, match=rf"mqtt://127\.0\.0\.1:{port}: no answer within 0\.1 s"):
            await link_to(port, connect_timeout_s=0.1).open(["a"])

    with_broker(broker, test)


def test_refused_subscriptions_are_given_by_their_filter() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await packet(reader)
        writer.write(CONNACK)
        await packet(reader)
        writer.write(b"\x90\x04\0\1\1\x80")
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port)
        granted, refused = await link.open(["a", "b"])
        assert not granted
        assert refused
        await link.close()

    with_broker(broker, test)


def test_a_backlog_that_comes_with_the_greeting_does_not_keep_the_link_from_opening() -> None:
    """A session that is resumed begins with all that was not acknowledged; the answer to SUBSCRIBE is behind it."""
    backlog = b"".join(publication("a", b"%d" % number, number=number) for number in range(1, MAX_WAITING + 2))

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer, CONNACK + backlog)
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port)
        assert await link.open(["a"]) == []
        assert len(await link.receive(MAX_WAITING, 1)) == MAX_WAITING
        await link.close()

    with_broker(broker, test)


def test_large_messages_that_wait_hold_the_socket_back() -> None:
    large = publication("a", bytes(MAX_WAITING_BYTES // 2), number=1)
    sent = 0

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await greet(reader, writer)
        for _ in range(40):
            writer.write(large)
            await writer.drain()
            sent += 1
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port)
        await link.open(["a"])
        while not link._is_full():  # noqa: ASYNC110 - the link sends no notice
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        held = sum(len(message.payload) for message in link._received)
        assert held <= MAX_WAITING_BYTES + len(large)
        assert sent < 40
        received = 0
        while received < 40:
            received += len(await link.receive(10, 5))
        await link.close()

    with_broker(broker, test)


def test_what_is_committed_late_is_not_acknowledged_in_another_session() -> None:
    acknowledged: list[list[bytes]] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)  # a session that is not resumed
        mine: list[bytes] = []
        acknowledged.append(mine)
        writer.write(publication("a", b"%d" % (1000 * len(acknowledged)), number=2))
        while data := await reader.read(2):
            if data[0] == 0x40:
                mine.append(await reader.readexactly(2))
            elif len(acknowledged) > 1:
                break

    async def test(port: int) -> None:
        table = {
            "host": "127.0.0.1",
            "port": port,
            "version": "3.1.1",
            "subscriptions": [{"topic": "a", "quantity": "q"}],
        }
        driver = build("gateway", table)
        await driver.open()
        (old,) = await driver.read()
        await driver.open()  # the broker has lost the session, and uses the number again
        (new,) = await driver.read()
        assert (old.value, new.value) == (1000, 2000)
        assert old.token is not None
        assert new.token is not None
        await driver.acknowledge([old.token])
        await asyncio.sleep(0.1)
        assert acknowledged[1] == [], "the new message is not committed"
        await driver.acknowledge([new.token])
        await driver.close()

    with_broker(broker, test)
    assert acknowledged == [[], [b"\0\2"]]


# How a connection begins


def test_version_5_tells_the_broker_how_much_may_come_and_how_long_the_session_lives() -> None:
    connect = b""

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connect
        connect = await packet(reader)
        writer.write(b"\x20\x06\1\0\x03\x21\0\x0a")  # a session that is resumed, and a Receive Maximum of 10
        await reader.read()

    async def test(port: int) -> None:
        link = MqttLink(
            settings_for(port, version="5", session_expiry_s=600), max_packet_bytes=70_000, receive_maximum=20
        )
        assert await link.open() == []
        assert link.session_is_resumed
        assert link.properties.ReceiveMaximum == 10
        await link.close()

    with_broker(broker, test)
    assert b"\x11" + (600).to_bytes(4) in connect
    assert b"\x21" + (20).to_bytes(2) in connect
    assert b"\x27" + (70_000).to_bytes(4) in connect


def test_the_password_comes_from_a_private_file(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("open sesame\n", encoding="utf-8")
    password.chmod(0o600)
    connect = b""

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connect
        connect = await packet(reader)
        writer.write(CONNACK)
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port, username="gateway", password_file=password)
        await link.open()
        await link.close()
        password.chmod(0o644)
        with pytest.raises(ConfigError, match="password"):
            await link_to(port, username="gateway", password_file=password).open()

    with_broker(broker, test)
    assert connect.endswith(b"\0\x07gateway\0\x0bopen sesame")


def test_a_broker_that_is_not_there_is_named() -> None:
    port = free_port()

    async def test() -> None:
        with pytest.raises(LinkDown, match=rf"^mqtt://127\.0\.0\.1:{port}: Connection refused$"):
            await link_to(port).open(["a"])

    asyncio.run(test())


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([b"\x20\x02\0\5"], "the broker refuses the connection: Not authorized"),
        ([b""], "the broker closed the connection"),
        ([b"\x30\x05\0\1a12"], "the broker sends a packet of kind 0x30 before"),
        ([CONNACK, b""], "the broker closed the connection"),
        ([CONNACK, b"\x90\0"], "the broker sends a packet of kind 0x90"),
        ([CONNACK, b"HTTP/1.1 400 Bad Request\r\n\r\n"], "the broker sends "),
    ],
)
def test_a_broker_that_refuses_or_talks_nonsense_ends_the_opening_with_the_reason(
    answers: Sequence[bytes], problem: str
) -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await packet(reader)
            writer.write(answer)
            if not answer:
                writer.write_eof()
        await reader.read()

    async def test(port: int) -> None:
        ends: list[LinkDown] = []
        link = MqttLink(settings_for(port), max_packet_bytes=1000, ended=ends.append)
        with pytest.raises(LinkDown, match=problem) as raised:
            await link.open(["a"])
        assert ends == [raised.value]
        with pytest.raises(LinkDown, match=problem):
            link.publish("a", b"1")
        await link.close()

    with_broker(broker, test)


def test_a_connection_that_nothing_waits_for_any_longer_is_closed_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients: list[PacketClient] = []  # held here, so that no garbage collector closes their sockets
    ended = asyncio.Event()
    connected = asyncio.Event()

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await packet(reader)
        assert await reader.read() == b""
        ended.set()

    async def test(port: int) -> None:
        opened_late = asyncio.Event()
        loop = asyncio.get_running_loop()
        open_now = PacketClient.open

        def open_late(client: PacketClient) -> None:
            clients.append(client)
            asyncio.run_coroutine_threadsafe(opened_late.wait(), loop).result()
            open_now(client)

        monkeypatch.setattr(PacketClient, "open", open_late)
        opening = asyncio.create_task(link_to(port).open(["a"]))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        opened_late.set()
        await ended.wait()

    with_broker(broker, test)
    assert connected.is_set()


# While it is open


def test_publications_are_numbered_and_reported_with_the_broker_s_answer() -> None:
    published: list[bytes] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await packet(reader)
        writer.write(CONNACK)
        for _ in range(2):
            published.append(await packet(reader))
            writer.write(b"\x40\x02" + published[-1][5:7])
        await reader.read()

    async def test(port: int) -> None:
        acknowledged: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()
        link = MqttLink(
            settings_for(port),
            max_packet_bytes=1000,
            published=lambda number, reason: acknowledged.put_nowait((number, reason.is_failure)),
        )
        with pytest.raises(LinkDown, match="not connected"):
            link.publish("t", b"too early")
        await link.open()
        numbers = [link.publish("t", b"1"), link.publish("t", b"2")]
        assert [await acknowledged.get(), await acknowledged.get()] == [(number, False) for number in numbers]
        await link.close()
        with pytest.raises(LinkDown, match="not connected"):
            link.publish("t", b"too late")

    with_broker(broker, test)
    assert [each[0] for each in published] == [0x32, 0x32], "QoS 1"
    assert [each[-1:] for each in published] == [b"1", b"2"]


def test_what_came_before_the_end_of_the_connection_is_received_and_then_its_end() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(publication("a", b"1", number=1) + publication("a", b"2", number=2))
        writer.write_eof()
        await reader.read()

    async def test(port: int) -> None:
        ended = asyncio.Event()
        link = MqttLink(settings_for(port), max_packet_bytes=1000, ended=lambda _: ended.set())
        await link.open(["a"])
        await ended.wait()
        link.acknowledge([1])  # which nothing can carry any longer
        received = await link.receive(1, 5) + await link.receive(1, 5)
        assert [message.payload for message in received] == [b"1", b"2"]
        for _ in range(2):
            with pytest.raises(LinkDown, match="the broker closed the connection"):
                await link.receive(1, 5)
        await link.close()

    with_broker(broker, test)


def test_a_receiver_that_waits_is_woken_by_the_end_of_the_connection_and_may_wait_in_vain() -> None:
    may_end = asyncio.Event()

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await may_end.wait()
        writer.write_eof()
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port)
        await link.open(["a"])
        assert await link.receive(1, 0.01) == []
        waiting = asyncio.create_task(link.receive(1, PATIENCE_S))
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(LinkDown, match="the broker closed the connection"):
            await waiting
        await link.close()

    with_broker(broker, test)


def test_a_broker_that_disconnects_says_why_and_whether_a_message_was_the_reason() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await packet(reader)
        writer.write(b"\x20\x03\0\0\0")
        await packet(reader)
        writer.write(b"\xe0\x02\x95\0")
        await reader.read()

    async def test(port: int) -> None:
        ends: asyncio.Queue[LinkDown] = asyncio.Queue()
        link = MqttLink(settings_for(port, version="5"), max_packet_bytes=1000, ended=ends.put_nowait)
        await link.open()
        link.publish("t", b"large")
        end = await ends.get()
        assert "Packet too large" in str(end)
        assert end.by_message
        await link.close()

    with_broker(broker, test)


def test_a_broker_that_answers_no_ping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("runtime.mqtt.link.KEEP_ALIVE_CHECK_S", 0.001)
    monkeypatch.setattr("runtime.mqtt.client.time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    heard = bytearray()

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        heard.extend(await packet(reader))
        writer.write(b"\xd0\0")  # the first is answered
        while data := await reader.read(100):
            heard.extend(data)

    async def test(port: int) -> None:
        link = link_to(port, keepalive_s=200)
        await link.open(["a"])
        with pytest.raises(LinkDown, match="does not answer a ping within 200 s"):
            await link.receive(1, PATIENCE_S)
        await link.close()

    with_broker(broker, test)
    assert heard == b"\xc0\0" * 2


def test_a_broker_that_reads_no_acknowledgement_ends_the_connection() -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(publication("a", b"1", number=1))
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port)
        await link.open(["a"])
        await link.receive(1, 5)
        for _ in range(MAX_UNSENT_PACKETS + 2):  # in one turn of the loop, in which nothing is written
            link.acknowledge([1])
        with pytest.raises(LinkDown, match="does not read what it is sent"):
            await link.receive(1, 5)
        await link.close()

    with_broker(broker, test)


# TLS


def tls_context(certificate: Path, key: Path, *, client: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client)
    return context


def test_many_messages_over_tls_are_all_received_in_order(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    messages = 2000

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(b"".join(publication("a", bytes(100), number=at + 1) for at in range(messages)))
        await reader.read()

    async def test(port: int) -> None:
        link = link_to(port, host="localhost", tls="on", ca_file=certificate, cert_file=certificate, key_file=key)
        await link.open(["a"])
        received: list[int] = []
        while len(received) < messages:
            came = await link.receive(300, 5)
            assert came
            received += [message.number for message in came]
        assert received == list(range(1, messages + 1))
        await link.close()

    with_broker(broker, test, tls_context(certificate, key, client=certificate))


def test_a_broker_with_another_certificate_is_refused_and_a_key_for_all_to_read_too(tmp_path: Path) -> None:
    for name in ("broker", "other"):
        (tmp_path / name).mkdir()
    certificate, key = make_certificate(tmp_path / "broker", "localhost")
    other, other_key = make_certificate(tmp_path / "other", "localhost")

    async def broker(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test(port: int) -> None:
        with pytest.raises(LinkDown, match=rf"^mqtts://localhost:{port}: .*certificate verify failed"):
            await link_to(port, host="localhost", tls="on", ca_file=other).open(["a"])
        other_key.chmod(0o644)
        with pytest.raises(ConfigError, match=r"key\.pem"):
            await link_to(
                port, host="localhost", tls="on", ca_file=certificate, cert_file=other, key_file=other_key
            ).open(["a"])

    with_broker(broker, test, tls_context(certificate, key))
