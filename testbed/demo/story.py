"""The demo, scene by scene. Each says in one line what happened, with figures."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from testbed.demo.lake import ingest_with_spark, ledger_without_spark, why_no_spark
from testbed.demo.ledger import Account, account_for
from testbed.demo.narrator import Narrator
from testbed.demo.stage import ENCRYPTED, MICRO, POLL_S, Stage
from testbed.threads import to_its_end

__all__ = ["play"]

FIRST_MESSAGES: Final = 150
CALM_S: Final = 0.6

T = TypeVar("T")


async def play(stage: Stage, narrator: Narrator) -> Account:
    """All scenes. Raises: BenchError."""
    await _set_up(stage, narrator)
    await _publish_live(stage, narrator)
    await _cut_the_network(stage, narrator)
    await _kill_an_agent(stage, narrator)
    await _ship(stage, narrator)
    return await _settle(stage, narrator)


async def _set_up(stage: Stage, narrator: Narrator) -> None:
    narrator.say("making keys, ports and configurations; building the microcontroller's firmware …")
    await stage.set_up()
    for problem in stage.missing:
        narrator.add(problem)
    node, collector = stage.node.address, stage.collector.address
    narrator.say(f"a node listens on {node}, a collector on {collector}, each a process of its own")
    await stage.start_agents()
    boards = " and a microcontroller" if MICRO in stage.agents else ""
    devices = f"{len(stage.devices)} weather stations on serial ports{boards}"
    narrator.say(f"{len(stage.agents)} agents ({', '.join(stage.agents)}) read {devices}")
    await stage.wait_until(lambda: len(stage.pages()) == len(stage.agents), "the status pages are there")
    for name, url in stage.pages().items():
        narrator.add(f"status page of {name}: {url}")


async def _publish_live(stage: Stage, narrator: Narrator) -> None:
    await _watch(stage, narrator, lambda: stage.acknowledged() >= FIRST_MESSAGES, "the first messages are published")
    narrator.say(f"{stage.acknowledged()} signed messages are published, each proved by the node")
    messages = await stage.subscribe(stage.settings.shown_messages)
    narrator.say(f"a subscriber reads {ENCRYPTED}'s encrypted stream; it verified and decrypted {len(messages)}:")
    for message in messages:
        narrator.add(_reading(message))


def _reading(message: dict[str, Any]) -> str:
    inner = message["io_message"]
    unit = str(inner.get("infoformat", "")).removesuffix("/cbor")
    return f"{inner.get('publisher')}  {inner.get('infotype')} {message['value']} {unit}"


async def _cut_the_network(stage: Stage, narrator: Narrator) -> None:
    await stage.network.stop()
    narrator.say(f"the network is cut for {stage.settings.scene_s:.0f} s; sensors are read on")
    await _pass_time(stage, narrator, stage.settings.scene_s)
    filled = stage.waiting()
    narrator.say(f"the journals have filled: {filled} messages wait on the disk")
    await stage.network.start()
    began_s = time.monotonic()
    await _watch(stage, narrator, lambda: stage.is_linked() and stage.waiting() < filled // 10, "the journals drain")
    took_s = time.monotonic() - began_s
    narrator.say(f"the network is back; the journals drained within {took_s:.1f} s, {stage.waiting()} wait")


async def _kill_an_agent(stage: Stage, narrator: Narrator) -> None:
    name = MICRO if MICRO in stage.agents else "south"
    agent = stage.agents[name]
    before = agent.figure("messages")
    await to_its_end(agent.kill)
    narrator.say(f"agent {name} is killed with kill -9 after {before} messages; nothing was closed, nothing flushed")
    await _pass_time(stage, narrator, stage.settings.scene_s / 2)
    await to_its_end(agent.start)
    await _watch(stage, narrator, lambda: agent.figure("acknowledged") > 0, f"{name} publishes again")
    kept = "; the microcontroller had kept what nobody acknowledged" if name == MICRO else ""
    narrator.say(f"agent {name} is started again, and goes on from its journal{kept}")
    await _pass_time(stage, narrator, stage.settings.scene_s / 2)


async def _ship(stage: Stage, narrator: Narrator) -> None:
    stage.silence()
    await asyncio.sleep(CALM_S)
    for agent in stage.agents.values():
        agent.expect_fresh_status()
    await _watch(
        stage, narrator, lambda: all(agent.is_settled() for agent in stage.agents.values()), "everything is shipped"
    )
    archives = stage.collector.archives()
    kilobytes = sum(path.stat().st_size for path in archives) / 1000
    narrator.say(f"{len(archives)} signed archives ({kilobytes:.0f} kB) are with the collector, each with its receipt")


async def _settle(stage: Stage, narrator: Narrator) -> Account:
    began_s = time.monotonic()
    if problem := why_no_spark():
        narrator.say(f"no Spark here, so no tables and no report: {problem}")
        rows = await asyncio.to_thread(ledger_without_spark, stage.collector.archives())
        narrator.say("the ledger was made without Spark, by the same checks:")
    else:
        narrator.say("Spark verifies every signature again and makes the tables …")
        work = ingest_with_spark(
            stage.collector.landing, stage.folder / "tables", stage.settings.report, stage.folder / "spark.log"
        )
        rows = await _with_progress(work, narrator, "Spark works")
        narrator.say(f"Spark is done within {time.monotonic() - began_s:.0f} s; the ledger of both ends:")
    names = {agent.address: name for name, agent in stage.agents.items()}
    account = account_for(rows, names)
    for line in account.lines:
        narrator.add(line)
    return account


# Waiting


async def _watch(stage: Stage, narrator: Narrator, is_true: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        narrator.show(_figures(stage))
        return is_true()

    await stage.wait_until(look, what)


async def _pass_time(stage: Stage, narrator: Narrator, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        narrator.show(_figures(stage))
        await asyncio.sleep(POLL_S)


def _figures(stage: Stage) -> str:
    return f"{stage.acknowledged()} acknowledged, {stage.waiting()} waiting, {len(stage.collector.archives())} archives"


async def _with_progress(work: Coroutine[Any, Any, T], narrator: Narrator, what: str) -> T:
    async def show() -> None:
        began_s = time.monotonic()
        while True:
            narrator.show(f"{what} … {time.monotonic() - began_s:.0f} s")
            await asyncio.sleep(1.0)

    showing = asyncio.create_task(show())
    try:
        return await work
    finally:
        showing.cancel()
