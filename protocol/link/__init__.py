"""Frames and messages between a gateway and the microcontrollers on its serial ports.

    bytes ──► LinkDecoder.feed ──► Frame ──► Authenticator.check ──► message_in ──► Record, Hello, …
    bytes ◄── Frame.to_bytes ◄──── Frame ◄── Authenticator.prove ◄─── frame_of ◄──── Ack, Command, …

Values and codecs only. The rules of the exchange (which end sends what and when, what is repeated) are chapter 10 of
`docs/wire-formats.md`; the host's side of it is `firmware_bridge/`, the device's `firmware_bridge/c/`.
"""

from protocol.link.authentication import (
    BOOT_ID_BYTES,
    HOST_NONCE_BYTES,
    KEY_BYTES,
    Authenticator,
    Direction,
    derive_session_key,
)
from protocol.link.commands import MAX_VALUE_BYTES, Command, CommandResult, CommandStatus, CommandValue
from protocol.link.description import CommandDescription, DescriptionRequest, SensorDescription, schema_of
from protocol.link.frame import (
    CRC_BYTES,
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_PAYLOAD_BYTES,
    MIN_MTU,
    PROOF_BYTES,
    VERSION,
    Damaged,
    Frame,
    FrameType,
    LinkDecoder,
    Proof,
)
from protocol.link.messages import Message, frame_of, message_in
from protocol.link.payload import MAX_SAMPLES
from protocol.link.readings import LogLevel, LogLine, Record, Sample
from protocol.link.session_messages import MAX_WINDOW, Ack, Feature, Hello, Sync, Time, TimeRequest
from protocol.link.update import (
    MAX_CHUNK_BYTES,
    MAX_MANIFEST_BYTES,
    SIGNATURE_BYTES,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
)

__all__ = [
    "BOOT_ID_BYTES",
    "CRC_BYTES",
    "HEADER_BYTES",
    "HOST_NONCE_BYTES",
    "KEY_BYTES",
    "MAX_BODY_BYTES",
    "MAX_CHUNK_BYTES",
    "MAX_MANIFEST_BYTES",
    "MAX_PAYLOAD_BYTES",
    "MAX_SAMPLES",
    "MAX_VALUE_BYTES",
    "MAX_WINDOW",
    "MIN_MTU",
    "PROOF_BYTES",
    "SIGNATURE_BYTES",
    "VERSION",
    "Ack",
    "Authenticator",
    "Command",
    "CommandDescription",
    "CommandResult",
    "CommandStatus",
    "CommandValue",
    "Damaged",
    "DescriptionRequest",
    "Direction",
    "Feature",
    "Frame",
    "FrameType",
    "Hello",
    "LinkDecoder",
    "LogLevel",
    "LogLine",
    "Message",
    "Proof",
    "Record",
    "Sample",
    "SensorDescription",
    "Sync",
    "Time",
    "TimeRequest",
    "UpdateBegin",
    "UpdateChunk",
    "UpdateConfirm",
    "UpdateEnd",
    "UpdateQuery",
    "UpdateReason",
    "UpdateState",
    "UpdateStatus",
    "derive_session_key",
    "frame_of",
    "message_in",
    "schema_of",
]
