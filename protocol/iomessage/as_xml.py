"""The XML embodiment: `<iomessage>` with twenty elements, named as the JSON keys, contents in base64.

Writing: every element but those of absent integers; an absent text is empty. XML 1.0 has no form for most control
characters, so text with one is refused.
Reading: elements in any order and case; unknown ones are ignored. Contents that are not base64 are read as they are,
and flagged: the only other program that writes XML, ioFog's test message generator, does not encode them. A document
type, an entity or an external reference ends the reading before it is expanded. Only the twenty texts are held.
"""

import re
from typing import Final

from protocol.errors import Corrupt, Unsupported, WireError
from protocol.iomessage.fields import BLOB_NAMES, INTEGER_LIMITS, JSON_KEYS, TEXT_LIMITS, Fields, Quirk
from protocol.iomessage.text_values import fields_from_texts, read_base64, texts_from_fields

_ROOT: Final = "iomessage"
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})  # \r would be read as \n
_KEYS: Final = frozenset(JSON_KEYS.values())
_BLANKS_DO_NOT_COUNT: Final = {JSON_KEYS[name] for name in (*INTEGER_LIMITS, "version")}


def encode(fields: Fields) -> str:
    """One line, no declaration; the encoding is UTF-8.

    Raises:
        Unsupported: a text holds a character that XML cannot carry.
    """
    for name in TEXT_LIMITS:
        _check_characters(name, getattr(fields, name) or "")
    texts = texts_from_fields(fields)
    elements = (f"<{key}>{str(text).translate(_REFERENCES)}</{key}>" for key, text in texts.items())
    return f"<{_ROOT}>{''.join(elements)}</{_ROOT}>"


def _check_characters(name: str, text: str) -> None:
    if found := _NOT_XML.search(text):
        problem = f"{name} holds U+{ord(found[0]):04X} at character {found.start()}, which XML cannot carry"
        raise Unsupported(f"{problem}; use the binary or JSON embodiment")


def decode(text: str | bytes) -> Fields:
    """Decode one message from an XML document.

    Raises:
        Corrupt: not well-formed, not an `<iomessage>`, or a value is wrong.
        Unsupported: another version of ioMessage, or a document with a document type or entities.
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    collector = _Collector()
    parser = DefusedXMLParser(target=collector, forbid_dtd=True)
    try:
        parser.feed(text)
        parser.close()
    except WireError:
        raise
    except DefusedXmlException:
        raise Unsupported("document types and entities are refused in XML") from None
    except (ParseError, LookupError, ValueError) as error:
        raise Corrupt(f"not XML: {error}") from None
    return _read_contents(collector.texts)


def _read_contents(texts: dict[str, str]) -> Fields:
    """Both contents decoded from base64 or, if one of them is not base64, as they are: no writer encodes only one.

    Raises: as `decode`.
    """
    contents = [texts.pop(JSON_KEYS[name], None) for name in BLOB_NAMES]
    fields = fields_from_texts(texts)
    try:
        context, content = map(_read_base64, BLOB_NAMES, contents)
    except Corrupt:
        context, content = (None if text is None else text.encode() for text in contents)
        fields = fields._replace(quirks=Quirk.RAW_CONTENT)
    return fields._replace(context_data=context, content_data=content)


def _read_base64(name: str, text: str | None) -> bytes | None:
    """Decode base64 on one or more lines, indented or not; with a blank within a line it is not base64.

    Raises: Corrupt.
    """
    lines = [] if text is None else [line.strip() for line in text.strip().split("\n")]
    if any(" " in line or "\t" in line for line in lines):
        raise Corrupt(f"{name} is not base64: it has blanks")
    return None if text is None else read_base64(name, "".join(lines))


class _Collector:
    """Collects the texts of the twenty elements from the events of the parser."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._depth = 0
        self._key = ""
        self._pieces: list[str] = []

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag.lower() != _ROOT:
            raise Corrupt(f"the root element is <{tag:.40}>, not <{_ROOT}>")
        if self._depth == 2:
            self._key = tag.lower()
            self._pieces = []

    def data(self, text: str) -> None:
        if self._depth == 2 and self._key in _KEYS:
            self._pieces.append(text)

    def end(self, _tag: str) -> None:
        if self._depth == 2 and self._key in _KEYS:
            text = "".join(self._pieces)
            self.texts[self._key] = text.strip() if self._key in _BLANKS_DO_NOT_COUNT else text
        self._depth -= 1

    def close(self) -> None:
        """The parser's last call; the result is in `texts`."""
