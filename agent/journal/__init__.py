"""The durable local buffer: append-only segments in priority lanes, and cursors that read them.

Promises:

1. What `commit` returned for survives `kill -9` and power loss at any write. A torn tail is passed over, never fatal.
2. `commit` returns only when the data is on the medium, so a source may be acknowledged after it and not before.
3. Memory does not grow with the backlog. Files never use more than `max_bytes`. A full disk costs the least
   important records, never a crash or a damaged record, and needs no operator to recover.
4. Under pressure the least important lane goes first (the highest number), oldest first, or every second record where
   a lane is to be thinned. Every loss is recorded, durably before the records are gone, until it is acknowledged; it
   names the readers that missed the records, and which of these have a copy of their own.
5. Damage costs the damaged records only (in a compressed block, the block); it is counted and recorded as a loss. No
   damage to any file stops the journal from opening, and none moves a cursor forward.
6. One commit is one write of whole pages to each lane that has something, in place over old pages, and one sync. What
   that costs the card is counted.

Limits: 32 lanes; a payload up to 1 MiB less 30 bytes (a quarter of a segment if that is less), with up to 65,535
readings; 255 bytes per chain name; 8 cursors; 4096 segments; one process writes, any number may read.

Only the journal deletes. A segment's file is reused when every cursor in the settings has acknowledged all of
it, or when it was shed. The archiver is a cursor like any other: it acknowledges what it has a receipt for.

Delivery is at least once: positions on the medium lag behind, so a crash repeats, never skips.

    journal     append, commit, cursors: the public interface, for one thread (`thread`)
    cursor      reading with acknowledgement
    settings    the settings, with their limits

    layout      the bytes of a block              lane        the segments of a lane in order, and reading them
    records     an entry, the record it becomes   segments    the segment files, the cap, and the blocks in them
    state       live segments and cursors, twice  store       the parts above, and how they become durable
    disk        the interface to the disk         recovery    reads the medium on opening
    losses      losses that are not yet reported  shedding    drops records when the journal is full
                and acknowledged                  stats       costs and forecasts
    lock        one process at a time             token_log   readings of sources that send again

    inspection  read-only access from outside, also while an agent writes
    repair      checks all records, and rewrites damaged segments
"""

from agent.journal.cursor import Cursor
from agent.journal.disk import DirectoryDisk, Disk
from agent.journal.journal import Journal
from agent.journal.losses import PendingLoss
from agent.journal.records import Entry, Record
from agent.journal.settings import JournalSettings
from agent.journal.stats import CursorStats, JournalStats, LaneStats

__all__ = [
    "Cursor",
    "CursorStats",
    "DirectoryDisk",
    "Disk",
    "Entry",
    "Journal",
    "JournalSettings",
    "JournalStats",
    "LaneStats",
    "PendingLoss",
    "Record",
]
