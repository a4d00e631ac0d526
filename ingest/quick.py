"""Fast reader of the messages that nearly every archive is full of, from their texts to their verified readings.

It reads texts of the usual form (`protocol/streamr/stream_message/usual_text.py`) without building a `StreamMessage`.
It accepts nothing that the general path (`ingest/records.py`) would refuse. Whatever it does not accept takes the
general path, which says what is wrong with it. A test compares the two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pybase64

from ingest.decoded import Identity
from protocol.archive.records import Record
from protocol.binding import Binding, binding_statement
from protocol.errors import WireError
from protocol.ethereum.secp256k1 import default_backend
from protocol.iomessage.content import split_pack
from protocol.streamr.stream_message.usual_text import UsualText, parse_usual_text


class UsualMessage(NamedTuple):
    """A message of the usual form, filed where it belongs, and signed by its device. Its readings are not read yet."""

    number: int  # of its record within the archive
    record: Record
    identity: Identity
    text: UsualText
    readings: list[bytes]  # in the binary embodiment


class QuickReader:
    """Reads the usual messages of one device."""

    def __init__(self, binding: Binding) -> None:
        """The device's public key is recovered from the binding of its archive, which it signed."""
        backend = default_backend()
        statement = binding_statement(binding.address, binding.archive_key)
        self._key = backend.load_public_key(backend.recover(statement.digest, binding.signature) or b"")
        self._device = f"0x{binding.address.hex()}".encode()

    def verify(self, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        """Whether the device made each signature. `Verifier` may still accept one that fails here."""
        return self._key.verify_all(digests, signatures)

    def read(self, records: Sequence[Record], numbers: Sequence[int]) -> list[UsualMessage | None]:
        """Each record that is a usual message, signed; None for the others.

        All are parsed before the first is verified: the curve's tables and the parser's code do not fit into a small
        processor's caches together, and taking turns with every message costs a third more.
        """
        parsed = [self._split(record, number) for record, number in zip(records, numbers, strict=True)]
        texts = [each.text for each in parsed if each is not None]
        holds = iter(self.verify([text.digest for text in texts], [text.signature for text in texts]))
        return [each if each is not None and next(holds) else None for each in parsed]

    def parse(self, record: Record) -> UsualText | None:
        """The record's text, if it is of the usual form and filed where it belongs. Its signature is not verified."""
        text = parse_usual_text(record.text)
        if text is None or text.ref != record[2:4] or text.publisher != self._device:
            return None
        return text

    def _split(self, record: Record, number: int) -> UsualMessage | None:
        text = self.parse(record)
        if text is None:
            return None
        try:
            readings = split_pack(pybase64.b64decode(text.base64, validate=True))
        except (ValueError, WireError):  # not base64, no whole messages, or too many
            return None
        if len(readings) != record.readings or (len(readings) > 1 and not text.is_pack):
            return None
        return UsualMessage(number, record, identity_of(text), text, readings)


def identity_of(text: UsualText) -> Identity:
    stream, partition, chain = text.identity
    return (stream.decode(), int(partition), chain.decode())
