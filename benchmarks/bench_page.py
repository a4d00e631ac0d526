"""The status page as a guest of the agent: its memory while nobody looks, and the CPU of each look."""

import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from agent.page.metrics import metrics_text
from agent.page.response import json_response
from benchmarks.harness import Figure, cpu_seconds_per_call
from tests.unit.agent.page.statuses import sensor, status

MAX_IDLE_MB: Final = 1.0
SENSORS: Final = 20
MEMORY: Final = """
import asyncio
from pathlib import Path
import agent.publish.websocket, agent.service  # what the agent has loaded anyway

def resident_kb():
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmRSS")).split()[1])

async def measure():
    await asyncio.sleep(0)
    before = resident_kb()
    from agent.page.access import Access
    from agent.page.history import History
    from agent.page.page import Page
    from agent.page.server import HttpServer
    from agent.page_config import PageConfig
    async with asyncio.TaskGroup() as group:
        server = HttpServer(Page(Access(PageConfig()), None, History()).answer, group)
        await server.open("127.0.0.1", 0)
        print(resident_kb() - before)
        server.close()

asyncio.run(measure())
"""


def measure() -> Iterable[Figure]:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, check=True)
    yield Figure(name="page: memory while nobody looks", value=int(done.stdout) / 1000, unit="MB", at_most=MAX_IDLE_MB)
    seen = status()
    seen["devices"]["boiler"]["sensors"] = [sensor(f"quantity {number}", number * 1.5) for number in range(SENSORS)]
    looks = {"metrics": lambda: metrics_text(seen), "status": lambda: json_response(seen)}
    for name, seconds in cpu_seconds_per_call(looks).items():
        yield Figure(name=f"page: CPU per {name}", value=seconds * 1e6, unit="µs", note=f"{SENSORS} sensors")
