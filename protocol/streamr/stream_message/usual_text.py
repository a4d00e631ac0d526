r"""Fast reader of the form of text that nearly every archived record has.

    [32,["<stream>",<partition>,<timestamp>,<sequence>,"<publisher>","<chain>"],<previous>,27,0,0,null,
     "{\"ioMessage\":\"<base64>\"}",null,2,"0x<signature>"]

or the same with `ioMessages`. That is: version 32, not encrypted, a reading or a pack in the binary embodiment, written
without white space, signed. Such a text is read without building a `StreamMessage`. Any other text gives None and is
read by `parse_stream_message`, which also reports its problems.
"""

import binascii
import re
from typing import Final, NamedTuple

from protocol.ethereum.curve import V_VALUES
from protocol.ethereum.hashing import eip191_digest
from protocol.iomessage.content import BINARY_CONTENT, BINARY_PACK

CONTENT_START, CONTENT_END = (part.encode() for part in BINARY_CONTENT)
PACK_START, _ = (part.encode() for part in BINARY_PACK)  # it ends as one message does


def _escaped(content: bytes) -> bytes:
    """A pattern of a part of the content as it stands in the text."""
    return re.escape(content.replace(b'"', rb"\""))


_PARTS: Final = {
    b"plain": rb'[^"\\\x00-\x1f\x7f-\xff]',  # a character that JSON does not escape
    b"number": rb"(?:0|[1-9][0-9]{0,15})",
    b"one": _escaped(CONTENT_START),
    b"several": _escaped(PACK_START),
    b"end": _escaped(CONTENT_END),
}
USUAL_TEXT: Final = re.compile(
    rb"""
    \[32,\["(?P<stream>%(plain)b+)",(?P<partition>0|[1-9][0-9]{0,8}),
    (?P<timestamp_ms>%(number)b),(?P<sequence>%(number)b),"(?P<publisher>0x[0-9a-f]{40})","(?P<chain>[A-Za-z0-9_-]{20})"\],
    (?:null|\[(?P<previous_ms>%(number)b),(?P<previous_sequence>%(number)b)\]),27,0,0,null,
    "(?:%(one)b|(?P<pack>%(several)b))(?P<base64>[A-Za-z0-9+/]*={0,2})%(end)b",null,2,"0x(?P<signature>[0-9a-fA-F]{130})"\]
    """
    % _PARTS,
    re.VERBOSE,
)

_new: Final = tuple.__new__  # a named tuple's own constructor would cost as much as reading the text

_Ref = tuple[int, int]  # timestamp in ms, sequence number


class UsualText(NamedTuple):
    """The fields of a text of the usual form. Its signature is not verified yet."""

    identity: tuple[bytes, bytes, bytes]  # stream, partition and chain as in the text
    publisher: bytes
    ref: _Ref
    previous: _Ref | None
    digest: bytes  # of what the signature covers
    signature: bytes
    base64: bytes  # the ioMessage, or those of a pack
    is_pack: bool


def parse_usual_text(text: bytes) -> UsualText | None:
    found = USUAL_TEXT.fullmatch(text)
    if found is None:
        return None
    stream, partition, timestamp_ms, sequence, publisher, chain, *before, pack, base64, written = found.groups(b"")
    ref = (int(timestamp_ms), int(sequence))
    previous = (int(before[0]), int(before[1])) if before[0] else None
    signature = binascii.unhexlify(written)
    if (previous is not None and previous >= ref) or signature[64] not in V_VALUES:
        return None
    signed = (
        stream, partition, timestamp_ms, sequence, publisher, chain, *before, PACK_START if pack else CONTENT_START,
        base64, CONTENT_END,
    )  # fmt: skip
    digest = eip191_digest(b"".join(signed))
    identity = (stream, partition, chain)
    return _new(UsualText, (identity, publisher, ref, previous, digest, signature, base64, bool(pack)))
