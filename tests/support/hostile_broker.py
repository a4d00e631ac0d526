"""A scripted broker, over one connection after the other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Final, Literal

from tests.unit.runtime.mqtt.test_packets import length, publication

__all__ = ["Attack", "HostileBroker", "State", "attack_of", "listening"]

State = Literal["connecting", "subscribing", "open"]  # when it attacks: instead of CONNACK, of SUBACK, or after both
STATES: Final[tuple[State, ...]] = ("connecting", "subscribing", "open")
Attack = Callable[[asyncio.StreamWriter], Awaitable[None]]
DRIPPED_BYTES: Final = 20
FLOOD_BYTES: Final = 24 << 20

CONNACK = {True: b"\x20\x03\0\0\0", False: b"\x20\x02\0\0"}


class HostileBroker:
    """Speaks MQTT up to a state, and then attacks. Of what the client sends it reads all, unless it is deaf."""

    def __init__(self, *, is_v5: bool, state: State, attack: Attack, is_deaf: bool = False) -> None:
        self.connections = 0
        self.attacks = 0
        self._is_v5 = is_v5
        self._state = state
        self._attack = attack
        self._is_deaf = is_deaf

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await _packet(reader)
            if self._state != "connecting":
                writer.write(CONNACK[self._is_v5])
                if self._state == "open":
                    await self._let_subscribe(reader, writer)
            self.attacks += 1
            await self._attack(writer)
            while not self._is_deaf and await reader.read(65_536):
                pass
        if self._is_deaf:
            await asyncio.Event().wait()

    async def _let_subscribe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A publisher does not; its first publication will do."""
        head, body = await _packet(reader)
        if head & 0xF0 == 0x80:
            topics = body.count(b"hostile")
            writer.write(b"\x90" + length(2 + self._is_v5 + topics) + body[:2] + b"\0" * self._is_v5 + b"\1" * topics)


async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readexactly(1))[0]
    size = place = 0
    while True:
        (byte,) = await reader.readexactly(1)
        size |= (byte & 0x7F) << place
        place += 7
        if byte < 0x80:
            return head, await reader.readexactly(size)


@asynccontextmanager
async def listening(broker: HostileBroker) -> AsyncIterator[int]:
    """The port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await broker.serve(reader, writer)
        finally:
            writer.transport.abort()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve_and_close(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


# What it sends


def _good_packets(chance: Random, *, is_v5: bool) -> bytes:
    """One or a few packets of any type, each whole."""
    kinds: list[Callable[[], bytes]] = [
        lambda: CONNACK[is_v5],
        lambda: publication("hostile/a", b"1", number=chance.randrange(1, 65_536), is_v5=is_v5),
        lambda: publication("hostile/a", b"1", is_v5=is_v5),
        lambda: b"\xd0\0",
        lambda: b"\x40\x02" + chance.randbytes(2),
        lambda: b"\x90\x03\0\1\1",
        lambda: bytes([chance.randrange(16) << 4 | chance.randrange(16)]) + _body(chance),
        lambda: bytes([chance.randrange(256), 0]),
    ]
    return b"".join(chance.choice(kinds)() for _ in range(chance.randrange(1, 6)))


def _body(chance: Random) -> bytes:
    body = chance.randbytes(chance.choice((0, 1, 2, 3, 4, 5, 8, 40)))
    return length(len(body)) + body


def _mutated(chance: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _announcement(chance: Random) -> bytes:
    """Of a packet that never comes, up to 256 MB."""
    return bytes([chance.choice((0x30, 0x32, 0x20, 0x40, 0x90, 0xD0, 0xE0, chance.randrange(256)))]) + chance.choice(
        (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80", b"\xff\xff\x7f", b"\x80")
    )


def attack_of(seed: int, *, is_v5: bool) -> Attack:
    chance = Random(seed)
    data = _good_packets(chance, is_v5=is_v5)
    kind = chance.randrange(6)
    if kind == 1:
        data = _mutated(chance, data)
    elif kind == 2:
        data = data[: chance.randrange(1, len(data) + 1)]
    elif kind == 3:
        data += _announcement(chance)
    elif kind == 4:
        data = chance.randbytes(chance.randrange(1, 60))
    is_dripped, floods = chance.random() < 0.2, kind == 3 and chance.random() < 0.5

    async def attack(writer: asyncio.StreamWriter) -> None:
        for at in range(min(DRIPPED_BYTES, len(data)) if is_dripped else 0):
            writer.write(data[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(data[DRIPPED_BYTES if is_dripped else 0 :])
        sent = 0
        while floods and sent < FLOOD_BYTES and not writer.is_closing():
            writer.write(bytes(1 << 20))
            sent += 1 << 20
            await writer.drain()
        if chance.random() < 0.5 and writer.can_write_eof():
            writer.write_eof()

    return attack
