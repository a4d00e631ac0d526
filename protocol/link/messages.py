"""All messages of the link, and the conversion between a message and its frame."""

from collections.abc import Callable
from typing import Final, TypeAlias

from protocol.link.commands import Command, CommandResult
from protocol.link.description import (
    CommandDescription,
    DescriptionRequest,
    SensorDescription,
    description_from_bytes,
)
from protocol.link.frame import Frame, FrameType
from protocol.link.readings import LogLine, Record
from protocol.link.session_messages import Ack, Hello, Sync, Time, TimeRequest
from protocol.link.update import UpdateBegin, UpdateChunk, UpdateConfirm, UpdateEnd, UpdateQuery, UpdateStatus

Message: TypeAlias = (
    Sync
    | Hello
    | DescriptionRequest
    | SensorDescription
    | CommandDescription
    | Record
    | Ack
    | TimeRequest
    | Time
    | Command
    | CommandResult
    | LogLine
    | UpdateBegin
    | UpdateChunk
    | UpdateEnd
    | UpdateConfirm
    | UpdateQuery
    | UpdateStatus
)

_READERS: Final[dict[FrameType, Callable[[bytes], Message]]] = {
    FrameType.SYNC: Sync.from_bytes,
    FrameType.HELLO: Hello.from_bytes,
    FrameType.DESC_REQ: DescriptionRequest.from_bytes,
    FrameType.DESC: description_from_bytes,
    FrameType.READING: Record.from_bytes,
    FrameType.ACK: Ack.from_bytes,
    FrameType.TIME_REQ: TimeRequest.from_bytes,
    FrameType.TIME: Time.from_bytes,
    FrameType.COMMAND: Command.from_bytes,
    FrameType.RESULT: CommandResult.from_bytes,
    FrameType.LOG: LogLine.from_bytes,
    FrameType.FW_BEGIN: UpdateBegin.from_bytes,
    FrameType.FW_CHUNK: UpdateChunk.from_bytes,
    FrameType.FW_END: UpdateEnd.from_bytes,
    FrameType.FW_CONFIRM: UpdateConfirm.from_bytes,
    FrameType.FW_QUERY: UpdateQuery.from_bytes,
    FrameType.FW_STATUS: UpdateStatus.from_bytes,
}


def frame_of(message: Message, *, session: int, seq: int = 0, is_nak: bool = False) -> Frame:
    return Frame(kind=message.KIND, session=session, seq=seq, is_nak=is_nak, payload=message.to_bytes())


def message_in(frame: Frame) -> Message:
    """Raises: WireError."""
    return _READERS[frame.kind](frame.payload)
