"""The JSON embodiment: one object with twenty lower-case keys, contents in base64.

Writing: every key; an absent text is "", as every known reader expects. Only an absent integer is left out: it is not
0, although every known reader reads it as 0.
Reading: missing keys and null are absent; keys in any case; `text_values` lists what else is tolerated.
"""

import orjson

from protocol.errors import Corrupt, Truncated
from protocol.iomessage.fields import Fields
from protocol.iomessage.text_values import fields_from_texts, texts_from_fields


def encode(fields: Fields) -> str:
    """One line, no blanks."""
    return orjson.dumps(texts_from_fields(fields)).decode()


def decode(text: str | bytes) -> Fields:
    """Decode one message from JSON text.

    Raises:
        Truncated: the text ends too early.
        Corrupt: not JSON, not an object, or a value is wrong.
        Unsupported: another version of ioMessage.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        ends_early = not text or 0 < len(error.doc) == error.pos
        kind = Truncated if ends_early else Corrupt
        raise kind(f"not JSON: {error.msg}", offset=len(error.doc[: error.pos].encode())) from None
    return from_document(document)


def from_document(document: object) -> Fields:
    """The message in a parsed JSON value. Raises: Corrupt, Unsupported."""
    if not isinstance(document, dict):
        raise Corrupt(f"an ioMessage in JSON is an object, not {type(document).__name__}", offset=0)
    return fields_from_texts({key.lower(): value for key, value in document.items()})
