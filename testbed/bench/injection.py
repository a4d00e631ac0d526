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
from testbed.bench.devices import Microcontroller, SerialDevice
from testbed.bench.servers import CollectorServer, Server
from testbed.bench.state_faults import inject_into_stored_state
from testbed.errors import BenchError
from testbed.processes import run_in_thread
from testbed.scenario import End, Fault, Moment, Progress
from testbed.scenario.faults import (
    ClockRate,
    ClockSet,
    ClockStep,
    DamageArchive,
    DamageJournal,
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
    Unplug,
)
from testbed.tcp_proxy import TcpProxy

Log = Callable[[str], None]
WAIT_S: Final = 1.0
CONNECT_S: Final = 5.0
UPGRADE: Final = (
    b"GET /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def inject_faults(bench: Bench, log: Log) -> None:
    """Run the whole scenario: start and end every fault at its time. Raises: BenchError.

    Returns when enough readings are committed: a slow machine takes longer, and does not fail for its speed.
    """
    until_s = time.monotonic() + bench.scenario.seconds
    chance = random.Random(bench.scenario.seed)
    async with asyncio.TaskGroup() as group:
        for fault in bench.scenario.faults:
            group.create_task(_inject_when_due(bench, fault, random.Random(chance.random()), log))
    await asyncio.sleep(max(0.0, until_s - time.monotonic()))
    at_least = bench.scenario.expect.at_least
    await wait_until(lambda: bench.committed >= at_least, f"{at_least} readings are committed", lambda: bench.committed)


async def inject_final_faults(bench: Bench, log: Log) -> None:
    """Inject what happens when everything is shipped. Raises: BenchError."""
    for fault in bench.scenario.faults:
        if isinstance(fault.moment, End):
            await _inject(bench, fault, random.Random(bench.scenario.seed), log)


async def _inject_when_due(bench: Bench, fault: Fault, chance: random.Random, log: Log) -> None:
    began_s = time.monotonic()
    match fault.moment:
        case Moment() as moment:
            for at_s in moment.all_s():
                await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
                await _inject(bench, fault, chance, log)
        case Progress(part, figure, at_least):
            await wait_until(
                lambda: bench.figure(part, figure) >= at_least, fault.when or "", lambda: bench.figure(part, figure)
            )
            await _inject(bench, fault, chance, log)


async def _inject(bench: Bench, fault: Fault, chance: random.Random, log: Log) -> None:
    async with bench.lock(fault.target):
        log(f"{fault.name()}: {fault.target}")
        if await inject_into_stored_state(bench, fault):
            return
        section, *names = fault.target.split(".")
        match section:
            case "agents":
                await _inject_into_agent(bench.agents[names[0]], fault, chance)
            case "links":
                await _inject_into_link(bench.links[fault.target], fault)
            case "devices":
                await _inject_into_device(bench.devices.get(names[0]) or bench.boards[names[0]], fault, chance)
            case _:
                await _inject_into_server(bench, bench.servers[fault.target], fault, chance)


# Agents
async def _inject_into_agent(agent: AgentPart, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Kill(for_s=for_s):
            await _down_for(agent.process.kill, for_s, agent.process.start)
        case Restart(for_s=for_s):
            await _down_for(agent.process.stop, for_s, agent.process.start)
        case PowerCut(for_s=for_s):
            await _down_for(agent.cut_power, for_s, agent.power_up)
        case FillDisk(for_s=for_s, leave_kilobytes=leave) if agent.volume is not None:
            await asyncio.to_thread(agent.volume.fill, leave << 10)
            await asyncio.sleep(for_s)
            await asyncio.to_thread(agent.volume.free_space)
        case DamageJournal(bits=bits, lane=lane):
            flip_bits(agent.segments(lane), bits, chance)
        case DamageArchive(bits=bits):
            flip_bits((agent.data / "archives").glob("*.hg[as]"), bits, chance)
        case ClockStep(by_s=by_s) if agent.clock is not None:
            agent.clock.step(by_s)
        case ClockRate(rate=rate, for_s=for_s) if agent.clock is not None:
            agent.clock.run_at(rate)
            await asyncio.sleep(for_s)
            agent.clock.run_at(1.0)
        case ClockSet() if agent.clock is not None:
            agent.clock.synchronise()


async def _down_for(end: Callable[[], None], for_s: float, start: Callable[[], None]) -> None:
    await run_in_thread(end)
    await asyncio.sleep(for_s)
    await run_in_thread(start)


# Servers
async def _inject_into_server(bench: Bench, server: Server, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Kill(for_s=for_s):
            await _down_for(server.process.kill, for_s, server.process.start)
        case Restart(for_s=for_s, lose_state=lose_state):
            await run_in_thread(server.process.stop)
            if lose_state:
                server.clear()
            await asyncio.sleep(for_s)
            await run_in_thread(server.process.start)
        case Hostile(connections=connections):
            await send_invalid_data(server.host, server.port, connections, chance)
        case DamageArchive(bits=bits) if isinstance(server, CollectorServer):
            flip_bits(server.archives(), bits, chance, bench.removed.copy_archive)


# Links
async def _inject_into_link(link: TcpProxy, fault: Fault) -> None:
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
async def _inject_into_device(device: object, fault: Fault, chance: random.Random) -> None:
    match fault:
        case Unplug(for_s=for_s) if isinstance(device, SerialDevice | Microcontroller):
            device.unplug()
            await asyncio.sleep(for_s)
            device.plug()
        case Garbage(bytes=count) if isinstance(device, SerialDevice):
            device.garble(chance, count)
        case _:
            raise BenchError(f"{fault.target}: not a simulated serial line, so it cannot be unplugged or disturbed")


def flip_bits(
    files: Iterable[Path], count: int, chance: random.Random, before: Callable[[Path], None] = lambda _: None
) -> int:
    """Flip bits in bytes of the files that are not zero, chosen at random. Returns how many it flipped.

    `before` is called with each file that is about to change, once. The files are in use: one that was deleted
    meanwhile is skipped.
    """
    written = [(path, offset) for path in sorted(files) for offset in _written(path)]
    chosen = chance.sample(written, min(count, len(written)))
    for path in {path for path, _ in chosen}:
        before(path)
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


async def send_invalid_data(host: str, port: int, connections: int, chance: random.Random) -> None:
    """Send invalid data over `connections` connections at once, and wait until all are closed."""
    texts = [_invalid_data(chance) for _ in range(connections)]
    await asyncio.gather(*(_connect_and_send(host, port, text) for text in texts))


async def _connect_and_send(host: str, port: int, text: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
        writer.write(text)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await reader.read()
        writer.transport.abort()


def _invalid_data(chance: random.Random) -> bytes:
    noise = chance.randbytes(chance.choice((0, 1, 100, 20_000)))
    return chance.choice(
        (
            noise,
            b"GET / HTTP/1.1\r\nX: " + noise.hex().encode(),
            b"PUT /archives/" + b"0" * 64 + b" HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n" + noise,
            UPGRADE + b"\x81\xfe" + noise,  # a frame with a wrong length
            UPGRADE + b"\x81\x85\x00\x00\x00\x00[2,1]",
            b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x05" + noise,  # a CONNECT of a quarter of a gigabyte
        )
    )
