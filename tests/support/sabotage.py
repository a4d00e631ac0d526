"""Agents that do not keep their promises, for an oracle that must notice.

Python runs a `sitecustomize` module at its start if it finds one; each of these is put in an agent's way like that.
"""

from pathlib import Path
from typing import Final

NO_SYNC: Final = """
import os
os.fdatasync = os.fsync = lambda descriptor: None  # promises without a medium
"""

SKIPPING: Final = """
import itertools
from protocol.archive.writer import ArchiveWriter
honest, numbers = ArchiveWriter.add, itertools.count(1)
ArchiveWriter.add = lambda self, record: b"" if next(numbers) % 50 == 0 else honest(self, record)
"""

SILENT: Final = """
import agent.events.events
from protocol.archive.writer import ArchiveWriter
async def report_nothing(events, notice, committed):
    committed.add(notice.loss.number)
agent.events.events._report_loss = report_nothing
ArchiveWriter.add_loss = lambda self, loss: None
"""

DOUBLING: Final = """
from drivers.serial_line import driver
honest = driver.SerialLineDecoder.feed
def feed(self, data, now_ms):
    found = honest(self, data, now_ms)
    return [*found, *found[:1]]
driver.SerialLineDecoder.feed = feed
"""


def environment_with(code: str, folder: Path) -> dict[str, str]:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(folder)}
