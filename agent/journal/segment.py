"""Find the blocks in a segment file, whatever happened to it. There is no file header to lose: each block tells all."""

from typing import NamedTuple

from agent.journal.disk import Disk, is_damage
from agent.journal.layout import (
    FOOT_MAGIC,
    HEAD_BYTES,
    HEAD_MAGIC,
    MAX_TABLE_BYTES,
    PAGE_BYTES,
    Head,
    parse_foot,
    parse_head,
)
from agent.journal.pool import file_name

WINDOW_BYTES = 8 * PAGE_BYTES  # read at once; holds any head with its table, and most blocks
_HEAD_AND_TABLE_BYTES = HEAD_BYTES + MAX_TABLE_BYTES


class Found(NamedTuple):
    head: Head
    block: bytes  # all its pages, as they are on the disk


class Owner(NamedTuple):
    """Which blocks of a file are meant: those of this journal and this use of the file. None means any."""

    journal_id: int | None
    segment_id: int | None

    def owns(self, head: Head) -> bool:
        return self.journal_id in (None, head.journal_id) and self.segment_id in (None, head.segment_id)


ANYONE = Owner(None, None)


def find_block(disk: Disk, file: int, owner: Owner, page: int, end_page: int) -> Found | None:
    """The owner's first block from `page` on. Damage in between is skipped; who counts positions will notice."""
    name = file_name(file)
    if page >= end_page:
        return None
    window = _read(disk, name, page * PAGE_BYTES, WINDOW_BYTES)
    head = parse_head(window)
    if head is None or head.page != page or not owner.owns(head):
        head = _resynchronise(disk, name, owner, page, end_page)
    if head is None or head.end_page > end_page:
        return None
    return Found(head, _whole_block(disk, name, head, page, window))


def _whole_block(disk: Disk, name: str, head: Head, page: int, window: bytes) -> bytes:
    size = head.pages * PAGE_BYTES
    if head.page == page and size <= len(window):
        return window[:size]
    return _read(disk, name, head.page * PAGE_BYTES, size)


def _resynchronise(disk: Disk, name: str, owner: Owner, page: int, end_page: int) -> Head | None:
    """Look at every page: it may start with a head, or end with the foot of a block whose head is damaged."""
    for start in range(page, end_page, WINDOW_BYTES // PAGE_BYTES):
        window = _read(disk, name, start * PAGE_BYTES, WINDOW_BYTES)
        for number in range(len(window) // PAGE_BYTES):
            content = window[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
            head = _head_at(disk, name, start + number, content) or _foot_at(disk, name, start + number, content)
            if head is not None and owner.owns(head) and head.page >= page:
                return head
    return None


def _head_at(disk: Disk, name: str, page: int, content: bytes) -> Head | None:
    if not content.startswith(HEAD_MAGIC):
        return None
    head = parse_head(_read(disk, name, page * PAGE_BYTES, _HEAD_AND_TABLE_BYTES))
    return head if head is not None and head.page == page else None


def _foot_at(disk: Disk, name: str, page: int, content: bytes) -> Head | None:
    if content[-HEAD_BYTES:][:4] != FOOT_MAGIC:
        return None
    end = (page + 1) * PAGE_BYTES
    start = max(0, end - _HEAD_AND_TABLE_BYTES)
    foot = parse_foot(_read(disk, name, start, end - start))
    return foot if foot is not None and foot.end_page == page + 1 else None


def _read(disk: Disk, name: str, offset: int, size: int) -> bytes:
    """What can be read. A file or sector that cannot be is damage like any other. Raises: OSError if it is none."""
    try:
        return disk.read(name, offset, size)
    except OSError as error:
        if not is_damage(error):
            raise
        return b""
