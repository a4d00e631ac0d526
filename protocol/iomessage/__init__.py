"""ioMessage version 4: one value, three embodiments (binary, JSON, XML), ids and the cryptographic chain."""

from protocol.iomessage.chain import (
    EMPTY_CHAIN,
    BreakKind,
    ChainBreak,
    ChainHead,
    ChainVerifier,
    message_hash,
    seal,
    verify_chain,
)
from protocol.iomessage.fields import Quirk
from protocol.iomessage.ids import RANDOM_BYTES, message_ids
from protocol.iomessage.message import IoMessage
from protocol.iomessage.reader import DEFAULT_MAX_MESSAGE_BYTES, IoMessageReader
from protocol.iomessage.template import Draft, SealedTemplate, Sealing

__all__ = [
    "DEFAULT_MAX_MESSAGE_BYTES",
    "EMPTY_CHAIN",
    "RANDOM_BYTES",
    "BreakKind",
    "ChainBreak",
    "ChainHead",
    "ChainVerifier",
    "Draft",
    "IoMessage",
    "IoMessageReader",
    "Quirk",
    "SealedTemplate",
    "Sealing",
    "message_hash",
    "message_ids",
    "seal",
    "verify_chain",
]
