"""The status page of the agent: its memory while it is not used, and the CPU per request."""

import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from agent.service.page.metrics import metrics_text
from agent.service.page.page import json_response
from benchmarks.harness import Figure, cpu_seconds_per_call
from tests.support.statuses import sensor, status

MAX_IDLE_MB: Final = 1.0
SENSORS: Final = 20
MEMORY: Final = """
import asyncio
from pathlib import Path
import agent.publish.websocket, agent.service.lifecycle  # what the agent has loaded anyway

def resident_kb():
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmRSS")).split()[1])

async def measure():
    await asyncio.sleep(0)
    before = resident_kb()
    from agent.service.page.access import Access
    from agent.service.page.history import History
    from agent.service.page.page import Page
    from agent.service.page.page import LIMITS
    from runtime.http import HttpServer
    from agent.config.page import PageConfig
    server = HttpServer(Page(Access(PageConfig()), None, History()), LIMITS, name="page")
    await server.start("127.0.0.1", 0)
    print(resident_kb() - before)
    await server.stop()

asyncio.run(measure())
"""


def measure() -> Iterable[Figure]:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, check=True)
    yield Figure(name="page: memory while not used", value=int(done.stdout) / 1000, unit="MB", at_most=MAX_IDLE_MB)
    current = status()
    current["devices"]["boiler"]["sensors"] = [sensor(f"quantity {number}", number * 1.5) for number in range(SENSORS)]
    requests = {"metrics": lambda: metrics_text(current), "status": lambda: json_response(current)}
    for name, seconds in cpu_seconds_per_call(requests).items():
        yield Figure(name=f"page: CPU per {name}", value=seconds * 1e6, unit="µs", note=f"{SENSORS} sensors")
