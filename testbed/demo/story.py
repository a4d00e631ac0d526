"""The steps of the demo. Each prints in one line what happened, with figures."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from testbed.demo.lake import Account, account_for, ingest_with_spark, ingest_without_spark, why_no_spark
from testbed.demo.stage import ENCRYPTED, MICRO, POLL_S, Stage
from testbed.processes import run_in_thread

FIRST_READINGS: Final = 150
CALM_S: Final = 0.6
T = TypeVar("T")
CLEAR: Final = "\r\x1b[K"


class Narrator:
    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._is_terminal = sys.stdout.isatty()

    def say(self, text: str) -> None:
        print(f"{self._clear()}{time.monotonic() - self._began_s:5.1f} s  {text}", flush=True)

    def add(self, text: str) -> None:
        """Print a further line of the same step."""
        print(f"{self._clear()}         {text}", flush=True)

    def show(self, text: str) -> None:
        """Show a line on a terminal that the next line replaces."""
        if self._is_terminal:
            print(f"{CLEAR}         {text}", end="", flush=True)

    def _clear(self) -> str:
        return CLEAR if self._is_terminal else ""


async def play(stage: Stage, narrator: Narrator) -> Account:
    """Run all steps of the demo. Raises: BenchError."""
    await _set_up(stage, narrator)
    await _publish_live(stage, narrator)
    await _cut_the_network(stage, narrator)
    await _kill_an_agent(stage, narrator)
    await _ship(stage, narrator)
    return await _settle(stage, narrator)


async def _set_up(stage: Stage, narrator: Narrator) -> None:
    narrator.say("creating keys, serial ports and configurations; building the microcontroller's firmware …")
    await stage.set_up()
    for problem in stage.missing:
        narrator.add(problem)
    node, collector = stage.node.address, stage.collector.address
    narrator.say(f"started a node on {node} and a collector on {collector}, each in its own process")
    await stage.start_agents()
    boards = " and a microcontroller" if MICRO in stage.agents else ""
    devices = f"{len(stage.devices)} weather stations on serial ports{boards}"
    narrator.say(f"{len(stage.agents)} agents ({', '.join(stage.agents)}) read {devices}")
    await stage.wait_until(lambda: len(stage.pages()) == len(stage.agents), "the status pages are there")
    for name, url in stage.pages().items():
        narrator.add(f"status page of {name}: {url}")


async def _publish_live(stage: Stage, narrator: Narrator) -> None:
    await _watch(stage, narrator, lambda: stage.acknowledged() >= FIRST_READINGS, "the first readings are published")
    narrator.say(f"{stage.acknowledged()} readings published in signed messages; the node verified each signature")
    messages = await stage.subscribe(stage.settings.shown_messages)
    narrator.say(f"a subscriber verified and decrypted {len(messages)} readings of {ENCRYPTED}'s encrypted stream:")
    for message in messages:
        narrator.add(_reading(message))


def _reading(message: dict[str, Any]) -> str:
    inner = message["io_message"]
    unit = str(inner.get("infoformat", "")).removesuffix("/cbor")
    return f"{inner.get('tag')}  {inner.get('infotype')} {message['value']} {unit}"


async def _cut_the_network(stage: Stage, narrator: Narrator) -> None:
    await stage.network.stop()
    narrator.say(f"network cut for {stage.settings.step_s:.0f} s; the agents keep reading their sensors")
    await _pass_time(stage, narrator, stage.settings.step_s)
    filled = stage.pending()
    narrator.say(f"{filled} readings are buffered in the journals on disk")
    await stage.network.start()
    began_s = time.monotonic()
    await _watch(stage, narrator, lambda: stage.is_linked() and stage.pending() < filled // 10, "the journals drain")
    took_s = time.monotonic() - began_s
    narrator.say(f"network restored; the buffered readings were published in {took_s:.1f} s, {stage.pending()} pending")


async def _kill_an_agent(stage: Stage, narrator: Narrator) -> None:
    name = MICRO if MICRO in stage.agents else "south"
    agent = stage.agents[name]
    before = agent.figure("readings")
    await run_in_thread(agent.process.kill)
    narrator.say(f"agent {name} killed with kill -9 after {before} readings, without a clean shutdown")
    await _pass_time(stage, narrator, stage.settings.step_s / 2)
    await run_in_thread(agent.process.start)
    await _watch(stage, narrator, lambda: agent.figure("acknowledged") > 0, f"{name} publishes again")
    resent = "; the microcontroller sent again what was not acknowledged" if name == MICRO else ""
    narrator.say(f"agent {name} restarted and continued from its journal{resent}")
    await _pass_time(stage, narrator, stage.settings.step_s / 2)


async def _ship(stage: Stage, narrator: Narrator) -> None:
    stage.pause_devices()
    await asyncio.sleep(CALM_S)
    for agent in stage.agents.values():
        agent.expect_fresh_status()
    await _watch(
        stage, narrator, lambda: all(agent.is_settled() for agent in stage.agents.values()), "everything is shipped"
    )
    archives = stage.collector.archives()
    kilobytes = sum(path.stat().st_size for path in archives) / 1000
    narrator.say(f"{len(archives)} signed archives ({kilobytes:.0f} kB) uploaded to the collector, each with a receipt")


async def _settle(stage: Stage, narrator: Narrator) -> Account:
    began_s = time.monotonic()
    if problem := why_no_spark():
        narrator.say(f"Spark is not available, so there are no tables and no report: {problem}")
        result = await asyncio.to_thread(ingest_without_spark, stage.collector.landing, stage.collector.archives())
        narrator.say("ledger, computed without Spark by the same checks:")
    else:
        narrator.say("Spark verifies every signature again and writes the tables …")
        work = ingest_with_spark(
            stage.collector.landing, stage.folder / "tables", stage.settings.report, stage.folder / "spark.log"
        )
        result = await _with_progress(work, narrator, "Spark is running")
        narrator.say(f"Spark finished in {time.monotonic() - began_s:.0f} s; ledger of readings produced and ingested:")
    names = {agent.address: name for name, agent in stage.agents.items()}
    account = account_for(result, names)
    for line in account.lines:
        narrator.add(line)
    return account


# Waiting
async def _watch(stage: Stage, narrator: Narrator, is_true: Callable[[], bool], what: str) -> None:
    def show_and_check() -> bool:
        narrator.show(_figures(stage))
        return is_true()

    await stage.wait_until(show_and_check, what)


async def _pass_time(stage: Stage, narrator: Narrator, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        narrator.show(_figures(stage))
        await asyncio.sleep(POLL_S)


def _figures(stage: Stage) -> str:
    return f"{stage.acknowledged()} acknowledged, {stage.pending()} pending, {len(stage.collector.archives())} archives"


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
