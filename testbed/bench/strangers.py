"""Peers that mean no good: they connect, say something that is nearly right or not at all, and stay or go."""

import asyncio
import contextlib
import random
from typing import Final

__all__ = ["send_rubbish"]

STAY_S: Final = 1.0
CONNECT_S: Final = 5.0

UPGRADE: Final = (
    b"GET /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def send_rubbish(host: str, port: int, connections: int, chance: random.Random) -> None:
    """So many at once; returns when all are gone."""
    texts = [_rubbish(chance) for _ in range(connections)]
    await asyncio.gather(*(_one_stranger(host, port, text) for text in texts))


async def _one_stranger(host: str, port: int, text: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
        writer.write(text)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STAY_S):
                await reader.read()
        writer.transport.abort()


def _rubbish(chance: random.Random) -> bytes:
    noise = chance.randbytes(chance.choice((0, 1, 100, 20_000)))
    return chance.choice(
        (
            noise,
            b"GET / HTTP/1.1\r\nX: " + noise.hex().encode(),
            b"PUT /archives/" + b"0" * 64 + b" HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n" + noise,
            UPGRADE + b"\x81\xfe" + noise,  # a frame whose length is a lie
            UPGRADE + b"\x81\x85\x00\x00\x00\x00[2,1]",
            b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x05" + noise,  # a CONNECT of a quarter of a gigabyte
        )
    )
