import asyncio

import pytest

from firmware_bridge import BytePort, LinkDown, ReopeningPort


class FailingPort:
    """Gives one piece, then is gone, and stays so."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self.written = b""
        self.is_closed = False

    async def read(self, timeout_s: float) -> bytes:  # noqa: ARG002
        if not self._piece:
            raise LinkDown("pulled out")
        piece, self._piece = self._piece, b""
        return piece

    async def write(self, data: bytes) -> None:
        if not self._piece:
            raise LinkDown("pulled out")
        self.written += data

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firmware_bridge.device_link.REOPEN_EVERY_S", 0)


def test_a_port_that_is_pulled_is_opened_again() -> None:
    async def scenario() -> list[bytes]:
        first, second = FailingPort(b"one"), FailingPort(b"two")

        async def open_port() -> BytePort:
            return second

        port = ReopeningPort(first, open_port)
        pieces = [await port.read(1) for _ in range(3)]
        assert first.is_closed
        return pieces

    assert asyncio.run(scenario()) == [b"one", b"", b"two"]


def test_while_it_is_away_nothing_comes_and_what_is_written_is_lost() -> None:
    async def scenario() -> None:
        async def open_port() -> BytePort:
            raise LinkDown("still away")

        first = FailingPort(b"")
        port = ReopeningPort(first, open_port)
        await port.write(b"lost")
        assert first.is_closed
        assert await port.read(1) == b""
        await port.write(b"lost, too")
        port.close()
        assert first.written == b""

    asyncio.run(scenario())
