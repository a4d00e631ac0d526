import asyncio
import time

import pytest

from firmware_bridge import DeviceLink, Event, HostSession, LinkDown, Measured
from protocol.link import UpdateQuery, UpdateStatus
from tests.support.model_device import ModelDevice
from tests.support.patience import PATIENCE_S


class DevicePort:
    """A device in Python behind a port; what is written to it is answered at once."""

    def __init__(self, device: ModelDevice) -> None:
        self.device = device
        self.is_pulled = False
        self.is_closed = False

    async def read(self, timeout_s: float) -> bytes:
        await asyncio.sleep(0)
        if self.is_pulled:
            raise OSError("it is gone")
        self.device.tick(time.monotonic() * 1000)
        if data := self.device.take_output():
            return data
        await asyncio.sleep(min(timeout_s, 0.005))
        return b""

    async def write(self, data: bytes) -> None:
        self.device.receive(data, time.monotonic() * 1000)

    def close(self) -> None:
        self.is_closed = True


def link_to(device: ModelDevice) -> tuple[DeviceLink, DevicePort]:
    port = DevicePort(device)
    return DeviceLink(port, HostSession(baudrate=115200)), port


def test_a_tool_talks_while_the_link_is_pumped_and_hears_what_happens() -> None:
    async def run() -> None:
        device, events = ModelDevice(), list[Event]()
        link, port = link_to(device)
        async with asyncio.timeout(PATIENCE_S), link.pumping(events.append):
            hello = await link.opened()
            assert hello.device_id == "model-1"
            assert (await link.call("set_led", 1)).value == 1
            assert isinstance(await link.ask(UpdateQuery()), UpdateStatus)
            device.measure(7, time.monotonic() * 1000)
            while not any(isinstance(event, Measured) for event in events):  # noqa: ASYNC110 - a list knows no events
                await asyncio.sleep(0.001)
            await link.commit([event.token for event in events if isinstance(event, Measured)])
            assert not device.queue
        link.close()
        assert port.is_closed

    asyncio.run(run())


def test_the_error_of_the_port_ends_the_block_as_it_is() -> None:
    async def run() -> None:
        link, port = link_to(ModelDevice())

        async def talk() -> None:
            async with asyncio.timeout(PATIENCE_S), link.pumping():
                await link.opened()
                port.is_pulled = True
                await asyncio.sleep(10)

        with pytest.raises(OSError, match="it is gone"):
            await talk()

    asyncio.run(run())


def test_readings_received_before_the_cable_was_pulled_are_delivered_although_they_cannot_be_acknowledged() -> None:
    """The session has delivered it, and would not do so again."""

    class HalfPulledPort(DevicePort):
        async def write(self, data: bytes) -> None:
            if self.is_pulled:
                raise LinkDown("it is gone")
            await super().write(data)

        async def read(self, timeout_s: float) -> bytes:
            data = await super().read(timeout_s)
            self.is_pulled = bool(data) and bool(self.device.queue)
            return data

    async def run() -> None:
        device = ModelDevice()
        link = DeviceLink(HalfPulledPort(device), HostSession(baudrate=115200))
        async with asyncio.timeout(PATIENCE_S):
            while not link.session.is_open:
                await link.pump(0.01)
            device.measure(7, time.monotonic() * 1000)
            events = list[Event]()
            while not events:
                events = await link.pump(0.01)
            assert any(isinstance(event, Measured) for event in events)
            with pytest.raises(OSError, match="it is gone"):
                await link.pump(0.01)

    asyncio.run(run())


def test_the_error_of_the_block_is_not_wrapped() -> None:
    async def run() -> None:
        device = ModelDevice()
        device.is_lost = True
        link, _ = link_to(device)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(LinkDown, match=r"no device answered within 0\.1 s; check cable and baudrate"):
                async with link.pumping():
                    await link.opened(0.1)

    asyncio.run(run())
