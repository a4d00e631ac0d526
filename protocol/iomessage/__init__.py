"""ioMessage version 4: one value, three embodiments (binary, JSON, XML), ids and the cryptographic chain."""

from protocol.iomessage.chain import (
    EMPTY_CHAIN,
    BreakKind,
    ChainBreak,
    ChainHead,
    ChainVerifier,
    hash_link,
    message_hash,
    verify_chain,
)
from protocol.iomessage.fields import Quirk
from protocol.iomessage.ids import RANDOM_BYTES, element_id, message_ids
from protocol.iomessage.message import IoMessage
from protocol.iomessage.reader import DEFAULT_MAX_MESSAGE_BYTES, IoMessageReader
from protocol.iomessage.template import ChainLinker, Draft, LinkedTemplate

__all__ = [
    "DEFAULT_MAX_MESSAGE_BYTES",
    "EMPTY_CHAIN",
    "RANDOM_BYTES",
    "BreakKind",
    "ChainBreak",
    "ChainHead",
    "ChainLinker",
    "ChainVerifier",
    "Draft",
    "IoMessage",
    "IoMessageReader",
    "LinkedTemplate",
    "Quirk",
    "element_id",
    "hash_link",
    "message_hash",
    "message_ids",
    "verify_chain",
]
