"""A process that writes to a journal until it is killed, telling on stdout what was committed.

`python -m tests.fault.journal_victim DIRECTORY SEED` prints one line after each commit: the next position of each lane.
"""

import random
import sys
import time
from pathlib import Path

from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings

LANES = (0, 4)
SETTINGS = JournalSettings(
    max_bytes=64 << 20,
    segment_bytes=64 * 1024,
    cursors=("publisher", "archiver"),
    positions_interval_ms=5,
    spare_segments=1,
)


def payload_at(lane: int, position: int) -> bytes:
    """What stands at a position is known to the process that checks."""
    return random.Random(lane * 1_000_003 + position).randbytes(position % 700)


def readings_at(position: int) -> int:
    return 1 + position % 7


def open_journal(directory: Path) -> Journal:
    return Journal(DirectoryDisk(directory), SETTINGS, new_journal_id=random.getrandbits(64), now_ms=_now_ms())


def main(directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    journal = open_journal(directory)
    next_positions = {lane: next_position(journal, lane) for lane in LANES}
    while True:
        for lane in LANES:
            for _ in range(chance.randint(0, 40)):
                position = next_positions[lane]
                entry = Entry(payload_at(lane, position), "chain", position, 0, readings_at(position))
                assert journal.append(lane, entry) == position
                next_positions[lane] = position + entry.readings
        journal.commit(_now_ms())
        print(*(f"{lane}:{position}" for lane, position in next_positions.items()), flush=True)
        publisher = journal.cursor("publisher")
        if taken := publisher.take(50):
            publisher.acknowledge(taken[0].lane, taken[-1].next_position - 1)


def next_position(journal: Journal, lane: int) -> int:
    stats = journal.stats(_now_ms()).lanes.get(lane)
    return stats.next_position if stats else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
