"""What is known of a record once it was found to be true, and how a scalar is laid out in columns."""

from typing import Any, Final, NamedTuple

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

Ref = tuple[int, int]  # timestamp in ms, sequence number

ROW_COLUMNS: Final = (
    "record", "chain", "timestamp_ms", "sequence", "arrived_at", "stream_id", "stream_partition", "msg_chain_id",
    "previous_timestamp_ms", "previous_sequence", "content_state", "message_id", "element", "sensor", "group_id",
    "priority", "quantity", "format", "unit", "value", "value_integer", "value_text", "value_boolean", "content",
    "chain_position", "hash", "clock", "boot", "monotonic_ms", "event_time", "signed_digest",
)  # fmt: skip


class ChainLink(NamedTuple):
    """The place of a linked ioMessage in its hash chain. The hash was found to be true."""

    publisher: str | None
    position: int
    hash: str  # lower-case hex
    previous_hash: str | None


class Decoded(NamedTuple):
    """A record that is true. `row` is in the order of `ROW_COLUMNS`; the link to the message before is judged later."""

    identity: tuple[str, int, str]  # stream, partition, message chain
    ref: Ref
    previous: Ref | None
    link: ChainLink | None
    row: tuple[Any, ...]
    event: GapNotice | ClockCorrection | None = None
    boot: str | None = None  # of a message whose time a correction tells


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
