"""Small archives for tests: fixed keys, made-up messages, and a way to write and read them whole."""

import hashlib
from collections.abc import Callable, Iterable

from nacl.signing import SigningKey

from protocol.archive.header import Header
from protocol.archive.random_access import OpenArchive, open_archive
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.binding import sign_binding
from protocol.devicelog.entry import LogEntry
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from protocol.ethereum import Signer
from protocol.losses import Loss
from protocol.reference import Reference

IDENTITY = Signer(bytes(range(1, 33)))
ARCHIVE_KEY = SigningKey(bytes(range(33, 65)))
BINDING = sign_binding(IDENTITY, bytes(ARCHIVE_KEY.verify_key))
HEADER = Header(binding=BINDING, journal_id=b"journal-of-tests", created_at_ms=1_700_000_000_000)
LOG = b"log-of-the-tests"
EMPTY_LOG = LogHead(log=LOG)
LOSS = Loss(
    number=7,
    lane=2,
    chain="chain-1",
    first_position=90,
    last_position=99,
    count=3,
    first=Reference(1_700_000_000_100, 0),
    last=Reference(1_700_000_000_100, 2),
    cause="disk full",
)


def record(number: int, *, chains: int = 3, text: bytes | None = None) -> Record:
    """The `number`-th made-up record; chains and lanes take turns."""
    return Record(
        text=b'[32,["stream",0,%d],"made up"]' % number if text is None else text,
        chain=f"chain-{number % chains}",
        timestamp_ms=1_700_000_000_000 + number,
        sequence=number % 2,
        lane=number % 2,
        position=10 + number,
        arrived_at_ms=1_700_000_000_005 + number,
    )


def sign(message: bytes) -> bytes:
    return ARCHIVE_KEY.sign(message).signature


def write_archive(
    records: Iterable[Record],
    losses: Iterable[Loss] = (),
    *,
    header: Header = HEADER,
    head: LogHead | None = None,
    block_target_bytes: int = 500,
) -> bytes:
    """The next archive of the log that ends with `head`; without one, the first of a log of its own."""
    records = list(records)
    head = head or LogHead(log=hashlib.sha256(b"".join(each.text for each in records)).digest()[:16])
    writer = ArchiveWriter(header, sign=sign, block_target_bytes=block_target_bytes)
    parts = [writer.begin(), *map(writer.add, records)]
    for loss in losses:
        writer.add_loss(loss)
    return b"".join([*parts, writer.finish(head.entry(writer.reached))])


def read_archive(data: bytes) -> tuple[OpenArchive, list[Record]]:
    archive = open_archive(read_at_of(data), len(data))
    return archive, [record for block in archive.blocks() for record in block.records]


def entry_of(data: bytes) -> LogEntry:
    """The log entry in the manifest of an archive; of a log of its own for what is none, or is encrypted."""
    try:
        return open_archive(read_at_of(data), len(data)).manifest.entry
    except WireError:
        return LogHead(log=hashlib.sha256(data).digest()[:16]).entry({})


def read_at_of(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, count: data[offset : offset + count]
