"""A port that is closed while a task waits for it: a cable is pulled in the middle of an acknowledgement."""

import asyncio
import socket

import pytest

from drivers.byte_source import ByteSource
from drivers.errors import DeviceError
from tests.support.patience import PATIENCE_S
from tests.support.within import within


def _source() -> tuple[ByteSource, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    return ByteSource(near.fileno(), "port", near.close), far


async def _waiting(work: "asyncio.Task[object]") -> None:
    """Until it waits for the descriptor."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not work.done()


def test_a_pending_write_fails() -> None:
    async def test() -> None:
        source, far = _source()
        with far:
            writing = asyncio.create_task(source.write(bytes(64 << 20)))  # more than a socket holds
            await _waiting(writing)
            source.close()
            with pytest.raises(DeviceError, match="port is gone"):
                await writing

    asyncio.run(within(PATIENCE_S, test()))


def test_a_pending_read_fails() -> None:
    async def test() -> None:
        source, far = _source()
        with far:
            reading = asyncio.create_task(source.read(PATIENCE_S))
            await _waiting(reading)
            source.close()
            with pytest.raises(DeviceError, match="port is gone"):
                await reading
            with pytest.raises(DeviceError, match="port is gone"):
                await source.write(b"more")

    asyncio.run(within(PATIENCE_S, test()))


def test_the_next_to_get_its_number_is_left_alone() -> None:
    async def test() -> None:
        source, far = _source()
        reading = asyncio.create_task(source.read(PATIENCE_S))
        await _waiting(reading)
        source.close()
        following, other = _source()  # the system gives the lowest number that is free
        heard = asyncio.create_task(following.read(PATIENCE_S))
        with far, other:
            with pytest.raises(DeviceError):
                await reading
            other.send(b"hello")
            assert await heard == b"hello"
            following.close()

    asyncio.run(within(PATIENCE_S, test()))
