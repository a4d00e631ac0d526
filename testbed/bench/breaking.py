"""Injects the faults of a scenario into a running bench at their times, and ends them.

`testbed/scenario/faults.py` describes each fault.
"""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from testbed.bench.agents import AgentPart
from testbed.bench.bench import Bench, wait_until
from testbed.bench.clock import HeldClock
from testbed.bench.devices import Microcontroller, SerialDevice
from testbed.bench.servers import CollectorServer, Server
from testbed.errors import BenchError
from testbed.processes import to_its_end
from testbed.scenario import Fault, Moment, Progress
from testbed.scenario.faults import (
    ClockRate,
    ClockSet,
    ClockStep,
    FillDisk,
    Garbage,
    Hostile,
    Kill,
    LinkDown,
    LinkFlap,
    LinkHalfOpen,
    LinkSlow,
    PowerCut,
    Restart,
    RotArchive,
    RotJournal,
    Unplug,
)
from testbed.tcp_proxy import TcpProxy

Say = Callable[[str], None]
STAY_S: Final = 1.0
CONNECT_S: Final = 5.0
UPGRADE: Final = (
    b"GET /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def break_as_planned(bench: Bench, say: Say) -> None:
    """The scenario's whole time: every fault when it is due, each healed in the end. Raises: BenchError.

    It goes on until as much is committed as must arrive: a slow machine takes longer, and is not judged by its speed.
    """
    until_s = time.monotonic() + bench.scenario.seconds
    chance = random.Random(bench.scenario.seed)
    async with asyncio.TaskGroup() as group:
        for fault in bench.scenario.faults:
            group.create_task(_break_when_due(bench, fault, random.Random(chance.random()), say))
    await asyncio.sleep(max(0.0, until_s - time.monotonic()))
    at_least = bench.scenario.expect.at_least
    await wait_until(lambda: bench.committed >= at_least, f"{at_least} messages are committed", lambda: bench.committed)


async def _break_when_due(bench: Bench, fault: Fault, chance: random.Random, say: Say) -> None:
    began_s = time.monotonic()
    match fault.moment:
        case Moment() as moment:
            for at_s in moment.all_s():
                await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
                await _break_part(bench, fault, chance, say)
        case Progress(part, figure, at_least):
            await wait_until(
                lambda: bench.figure(part, figure) >= at_least, fault.when or "", lambda: bench.figure(part, figure)
            )
            await _break_part(bench, fault, chance, say)


async def _break_part(bench: Bench, fault: Fault, chance: random.Random, say: Say) -> None:
    async with bench.lock(fault.target):
        say(f"{_in_words(fault)}: {fault.target}")
        section, *names = fault.target.split(".")
        match section:
            case "agents":
                await _break_agent(bench.agents[names[0]], fault, chance)
            case "links":
                await _break_link(bench.links[fault.target], fault)
            case "devices":
                await _break_device(bench.devices.get(names[0]) or bench.boards[names[0]], fault, chance)
            case _:
                await _break_server(bench.servers[fault.target], fault, chance)


def _in_words(fault: Fault) -> str:
    name = type(fault).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


# Agents
async def _break_agent(agent: AgentPart, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Kill(for_s=for_s):
            await _down_for(agent.kill, for_s, agent.start)
        case Restart(for_s=for_s):
            await _down_for(agent.stop, for_s, agent.start)
        case PowerCut(for_s=for_s):
            await _down_for(agent.cut_power, for_s, agent.power_up)
        case FillDisk(for_s=for_s, leave_kilobytes=leave) if agent.volume is not None:
            await asyncio.to_thread(agent.volume.fill, leave << 10)
            await asyncio.sleep(for_s)
            await asyncio.to_thread(agent.volume.make_room)
        case RotJournal(bits=bits, lane=lane):
            flip_bits(agent.segments(lane), bits, chance)
        case RotArchive(bits=bits):
            flip_bits((agent.data / "archives").glob("*.hg[as]"), bits, chance)
        case ClockStep() | ClockRate() | ClockSet() if agent.clock is not None:
            await _turn_clock(agent.clock, fault)


async def _turn_clock(clock: HeldClock, fault: Fault) -> None:
    match fault:
        case ClockStep(by_s=by_s):
            clock.step(by_s)
        case ClockRate(rate=rate, for_s=for_s):
            clock.run_at(rate)
            await asyncio.sleep(for_s)
            clock.run_at(1.0)
        case ClockSet():
            clock.set_right()


async def _down_for(end: Callable[[], None], for_s: float, start: Callable[[], None]) -> None:
    await to_its_end(end)
    await asyncio.sleep(for_s)
    await to_its_end(start)


# Servers
async def _break_server(server: Server, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Kill(for_s=for_s):
            await _down_for(server.kill, for_s, server.start)
        case Restart(for_s=for_s, forget=forget):
            await to_its_end(server.stop)
            if forget:
                server.forget()
            await asyncio.sleep(for_s)
            await to_its_end(server.start)
        case Hostile(connections=connections):
            await send_rubbish(server.host, server.port, connections, chance)
        case RotArchive(bits=bits) if isinstance(server, CollectorServer):
            flip_bits(server.landing.glob("*.hg[as]"), bits, chance)


# Links
async def _break_link(link: TcpProxy, fault: Fault) -> None:
    match fault:
        case LinkDown(for_s=for_s):
            await link.stop()
            await asyncio.sleep(for_s)
            await link.start()
        case LinkSlow(for_s=for_s, bytes_per_s=bytes_per_s):
            link.slow(bytes_per_s)
            await asyncio.sleep(for_s)
            link.slow(None)
        case LinkHalfOpen(for_s=for_s):
            link.stall()
            await asyncio.sleep(for_s)
            await link.heal()
        case LinkFlap(for_s=for_s, period_s=period_s):
            until_s = time.monotonic() + for_s
            while time.monotonic() < until_s:
                await asyncio.sleep(period_s)
                await link.cut()


# Devices
async def _break_device(device: object, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Unplug(for_s=for_s) if isinstance(device, SerialDevice | Microcontroller):
            device.unplug()
            await asyncio.sleep(for_s)
            device.plug()
        case Garbage(bytes=count) if isinstance(device, SerialDevice):
            device.garble(chance, count)
        case _:
            raise BenchError(f"{fault.target}: not a simulated serial line, so it cannot be unplugged or disturbed")


def flip_bits(files: Iterable[Path], count: int, chance: random.Random) -> int:
    """In places of the files where something is written, each as likely as any other. Returns how many it flipped.

    The files are in use: one that its owner has deleted since they were listed is left out.
    """
    written = [(path, offset) for path in sorted(files) for offset in _written(path)]
    chosen = chance.sample(written, min(count, len(written)))
    return sum(_flip_one(path, offset, chance) for path, offset in chosen)


def _written(path: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [offset for offset, byte in enumerate(path.read_bytes()) if byte]
    return []


def _flip_one(path: Path, offset: int, chance: random.Random) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("r+b", buffering=0) as file:
        [byte] = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes([byte ^ 1 << chance.randrange(8)]), offset)
        return True
    return False


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
