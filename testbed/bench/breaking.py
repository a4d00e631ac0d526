"""Faults, inflicted on a bench when their time comes, and healed. `testbed/scenario/faults.py` says what each is."""

import asyncio
import random
import time
from collections.abc import Callable

from testbed.bench.agents import AgentPart
from testbed.bench.bench import Bench
from testbed.bench.clock import HeldClock
from testbed.bench.devices import Microcontroller, SerialDevice
from testbed.bench.rot import flip_bits
from testbed.bench.servers import CollectorServer, Server
from testbed.bench.strangers import send_rubbish
from testbed.errors import BenchError
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
from testbed.threads import to_its_end

__all__ = ["break_as_planned"]

Say = Callable[[str], None]


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
    await bench.wait_until(lambda: bench.committed >= at_least, f"{at_least} messages are committed")


async def _break_when_due(bench: Bench, fault: Fault, chance: random.Random, say: Say) -> None:
    began_s = time.monotonic()
    match fault.moment:
        case Moment() as moment:
            for at_s in moment.all_s():
                await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
                await _break_part(bench, fault, chance, say)
        case Progress(part, figure, at_least):
            await bench.wait_until(lambda: bench.figure(part, figure) >= at_least, fault.when or "")
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
            raise BenchError(f"{fault.target}: its line is not ours to pull or to garble")
