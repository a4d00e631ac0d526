"""What is known of a record once it was found to be true, and how a scalar is laid out in columns."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ingest.reasons import Quarantined, Reason
from protocol.archive.records import Record
from protocol.clock import ClockCorrection
from protocol.events import GapNotice
from protocol.scalars import decode_scalar

EARLIEST_MS: Final = 946_684_800_000  # 2000-01-01
# 2020-01-01, of the message itself: between it and LATEST_MS all times have 13 digits, so none can be moved out or in
EARLIEST_MESSAGE_MS: Final = 1_577_836_800_000
LATEST_MS: Final = 4_102_444_800_000  # 2100-01-01
MAX_INTEGER: Final = 2**63 - 1  # what a long column holds
MAX_PRIORITY: Final = 2**31 - 1  # what an int column holds
MAX_PARTITION: Final = 2**31 - 1
MAX_POSITION: Final = 2**48  # in a hash chain; beyond it nobody can have counted

FIRST, LINKED, FORKED, UNLINKED = "first", "linked", "forked", "unlinked"  # to the reading before

Ref = tuple[int, int]  # timestamp in ms, sequence number
Identity = tuple[str, int, str]  # stream, partition, message chain

OF_MESSAGE: Final = (
    "record", "chain", "timestamp_ms", "sequence", "arrived_at", "stream_id", "stream_partition", "msg_chain_id",
    "previous_timestamp_ms", "previous_sequence", "content_state", "signed_digest", "readings",
)  # fmt: skip
OF_READING: Final = (
    "message_id", "element", "sensor", "group_id", "priority", "quantity", "format", "unit", "value", "value_integer",
    "value_text", "value_boolean", "content", "chain_position", "hash", "clock", "boot", "monotonic_ms", "event_time",
)  # fmt: skip
ROW_COLUMNS: Final = (*OF_MESSAGE, "reading", *OF_READING)


class ChainLink(NamedTuple):
    """The place of a reading, or of several in a row, in the hash chain. The hashes were found to be true."""

    first: int  # positions
    last: int
    hash: str  # of the last; lower-case hex
    previous_hash: str | None  # that the first names


class Reading(NamedTuple):
    """A reading that is true: `columns` in the order of `OF_READING`. Who reads its message judges its link."""

    columns: tuple[Any, ...]
    link: ChainLink | None = None
    event: GapNotice | ClockCorrection | None = None
    boot: str | None = None  # of a reading whose time a correction tells


class Decoded(NamedTuple):
    """A message that is true, or a run of them, each naming the one before. Who walks the chain judges its link."""

    identity: Identity
    first: Ref
    last: Ref
    previous: Ref | None  # that the first message names
    link: ChainLink | None  # of all readings
    readings: int
    rows: Sequence[tuple[Any, ...]] = ()  # in the order of `ROW_COLUMNS`; none of what is laid out in columns
    events: Sequence[GapNotice | ClockCorrection] = ()
    boots: Sequence[str] = ()


def message_columns(
    record: Record, number: int, identity: Identity, previous: Ref | None, state: str, digest: bytes, readings: int
) -> tuple[Any, ...]:
    """What all rows of a message share, in the order of `OF_MESSAGE`."""
    return (
        number, record.chain, record.timestamp_ms, record.sequence, arrival_us(record.arrived_at_ms), *identity,
        *(previous or (None, None)), state, digest, readings,
    )  # fmt: skip


def check_fits(columns: tuple[Any, ...]) -> None:
    """Signed nonsense must not stop the table that it does not fit into. Raises: Quarantined."""
    if max((each for each in columns if type(each) is int), default=0) > MAX_INTEGER:
        raise Quarantined(Reason.NOT_A_MESSAGE, "a number in it is larger than a column holds")
    try:
        "".join(each for each in columns if type(each) is str).encode()
    except UnicodeEncodeError:
        raise Quarantined(Reason.NOT_A_MESSAGE, "a text in it has half a character") from None


def arrival_us(arrived_at_ms: int) -> int | None:
    """By a clock that may show anything; what no calendar holds is null."""
    return arrived_at_ms * 1000 if arrived_at_ms < LATEST_MS else None


def scalar_columns(data: bytes) -> tuple[Any, ...]:
    """value, value_integer, value_text, value_boolean, content. Raises: WireError where it is no scalar."""
    scalar = decode_scalar(data)
    if type(scalar) is float:  # as nearly all are
        return (scalar, None, None, None, None)
    match scalar:
        case bool() as flag:
            return (None, None, None, flag, None)
        case int() as number:
            return (float(number), number if -MAX_INTEGER - 1 <= number <= MAX_INTEGER else None, None, None, None)
        case str() as text:
            return (None, None, text, None, None)
        case content:
            return (None, None, None, None, content)
