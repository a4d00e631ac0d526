"""Promise 3 of the journal: memory stays flat, however much is queued."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import effort

RECORDS = effort(test=200_000, soak=2_000_000)
MAX_GROWTH_BYTES = 8 << 20

QUEUE_AND_MEASURE = """
import pathlib, resource, sys
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings

def rss_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

directory, records = pathlib.Path(sys.argv[1]), int(sys.argv[2])
journal = Journal(DirectoryDisk(directory), JournalSettings(), new_journal_id=3, now_ms=0)
batch = 500
for number in range(records // batch):
    journal.append_many(1, [Entry(b"%09d %09d " % (number, at) * 20, "chain", number, at) for at in range(batch)])
    journal.commit(0)
    if number == 100:
        early = rss_bytes()
print(journal.stats(0).cursors["publisher"].depth, rss_bytes() - early)
"""


@pytest.mark.slow
def test_memory_is_flat_while_records_queue(tmp_path: Path) -> None:
    command = [sys.executable, "-c", QUEUE_AND_MEASURE, str(tmp_path), str(RECORDS)]
    depth, growth_bytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(depth) == RECORDS
    assert int(growth_bytes) < MAX_GROWTH_BYTES
