"""The ioMessage: one frozen value, three embodiments.

It is a tuple, because twenty fields are built and read for every reading, and no other immutable value is cheaper in
Python. Absent is None, which differs from 0 and "". The formats distinguish less: the binary embodiment does not
distinguish an absent text from an empty one, and readers of JSON and XML read an absent integer as 0.
"""

from typing import Any, Self

from protocol.errors import Corrupt
from protocol.iomessage import as_bytes, as_json
from protocol.iomessage.fields import (
    JSON_KEYS,
    VERSION,
    Fields,
    Quirk,
    check_fields,
    fields_beyond_safe_limits,
    missing_fields,
)

_NO_QUIRKS = Quirk.NONE


class IoMessage(Fields):
    """One ioMessage of version 4. A message built by the constructor is complete and within limits.

    A decoded message may lack required fields, as real writers leave them out: `missing` names them. `quirks` are the
    deviations that the decoder tolerated; they count in comparisons.
    """

    __slots__ = ()

    def __new__(
        cls,
        *,
        id: str,  # noqa: A002 - the document's name
        timestamp: int,
        publisher: str,
        info_type: str,
        info_format: str,
        content_data: bytes,
        tag: str | None = None,
        group_id: str | None = None,
        sequence_number: int | None = None,
        sequence_total: int | None = None,
        priority: int | None = None,
        auth_id: str | None = None,
        auth_group: str | None = None,
        version: int = VERSION,
        chain_position: int | None = None,
        hash: str | None = None,  # noqa: A002 - the document's name
        previous_hash: str | None = None,
        nonce: str | None = None,
        difficulty_target: int | None = None,
        context_data: bytes | None = None,
    ) -> Self:
        """Build a message.

        Raises:
            Corrupt: a required field is missing or empty, or a field is beyond its limit.
        """
        self = tuple.__new__(
            cls,
            (
                id, tag, group_id, sequence_number, sequence_total, priority, timestamp, publisher, auth_id, auth_group,
                version, chain_position, hash, previous_hash, nonce, difficulty_target, info_type, info_format,
                context_data, content_data, _NO_QUIRKS,
            ),
        )  # fmt: skip
        check_fields(self)
        if not (id and publisher and info_type and info_format) or timestamp is None or content_data is None:
            raise Corrupt(f"required but missing: {', '.join(self.missing)}")
        return self

    @property
    def missing(self) -> tuple[str, ...]:
        """The required fields that the writer left out; always empty for a message built by the constructor."""
        return missing_fields(self)

    @property
    def beyond_safe_limits(self) -> tuple[str, ...]:
        """The fields that the format allows but some known decoder misreads."""
        return fields_beyond_safe_limits(self)

    def replace(self, **changes: Any) -> Self:
        """A new message with these fields changed, checked like any other."""
        return type(self)(**{name: getattr(self, name) for name in JSON_KEYS} | changes)

    _replace = __replace__ = replace  # those of namedtuple would not check the fields

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), tuple(self))

    def to_bytes(self, *, profile: as_bytes.Profile = "minimal") -> bytes:
        """The binary embodiment. `profile="agent"` gives the Java agent's fixed-width integers.

        Raises:
            Unsupported: an integer is too large for the agent profile.
            Corrupt: a text that was read as Latin-1 is too long in UTF-8.
        """
        return as_bytes.encode(self, profile)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read exactly one binary message.

        Raises:
            Truncated: the data ends too early.
            Unsupported: another version.
            Corrupt: bytes are left over, or a length is impossible.
        """
        return tuple.__new__(cls, as_bytes.decode(data))

    def to_json(self) -> str:
        """The JSON embodiment in one line."""
        return as_json.encode(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read one JSON message.

        Raises:
            Truncated, Corrupt, Unsupported: with the problem.
        """
        return tuple.__new__(cls, as_json.decode(text))

    def to_xml(self) -> str:
        """The XML embodiment in one line.

        Raises:
            Unsupported: a text holds a character that XML cannot carry.
        """
        from protocol.iomessage import as_xml  # loaded on first use, for its tables and parser

        return as_xml.encode(self)

    @classmethod
    def from_xml(cls, text: str | bytes) -> Self:
        """Read one XML message; document types, entities and external references are refused.

        Raises:
            Corrupt, Unsupported: with the problem.
        """
        from protocol.iomessage import as_xml

        return tuple.__new__(cls, as_xml.decode(text))


def _restore(cls: type[IoMessage], values: tuple[Any, ...]) -> IoMessage:
    return tuple.__new__(cls, values)
