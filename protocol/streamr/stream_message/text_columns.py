"""Fast reader of many texts of one chain at once, as a matrix of bytes with one message per row.

Texts that are as long as the first, which is of the usual form (`usual_text`) with one reading, and differ from it only
within its numbers, its ioMessage and its signature, have every field in the same columns. So each field is extracted
and checked for all of them together. Requires numpy, which devices do not have.
"""

import binascii
from collections.abc import Sequence
from operator import lt
from typing import Final, NamedTuple

import numpy as np
import pybase64

from protocol.byte_matrix import ByteMatrix, differ_only_within
from protocol.ethereum.curve import SIGNATURE_BYTES, V_VALUES
from protocol.ethereum.hashing import eip191_digests
from protocol.streamr.stream_message.usual_text import CONTENT_END, CONTENT_START, USUAL_TEXT

_VARYING: Final = ("timestamp_ms", "sequence", "previous_ms", "previous_sequence", "base64", "signature")


class TextColumns(NamedTuple):
    """The fields of the texts. The signatures are not verified yet."""

    messages: ByteMatrix  # the ioMessages in binary, one per row
    digests: list[bytes]  # of what was signed
    signatures: list[bytes]


def read_texts(texts: Sequence[bytes], timestamps_ms: Sequence[int], sequences: Sequence[int]) -> TextColumns | None:
    """The fields of texts of equal length, of which the first was parsed before.

    None unless all have the layout of the first, which is no pack, and these references, and each but the first names
    the previous one.
    """
    found = USUAL_TEXT.fullmatch(texts[0])
    if found is None or found["pack"] is not None or found["previous_ms"] is None:
        return None
    matrix = np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)
    at = {name: slice(*found.span(name)) for name in found.groupdict()}
    fields = {name: matrix[:, at[name]] for name in _VARYING}
    if not (
        differ_only_within(matrix, (at[name] for name in _VARYING))
        and _are_numbers(fields["timestamp_ms"], timestamps_ms)
        and _are_numbers(fields["sequence"], sequences)
        and _increase(timestamps_ms, sequences)
        and _name_the_previous(fields)
    ):
        return None
    try:
        signatures = binascii.unhexlify(fields["signature"].tobytes())
        messages = _decode_base64(fields["base64"])
    except ValueError:
        return None
    if not set(signatures[SIGNATURE_BYTES - 1 :: SIGNATURE_BYTES]).issubset(V_VALUES):
        return None
    signed = _join_columns(
        found["stream"] + found["partition"], fields["timestamp_ms"], fields["sequence"],
        found["publisher"] + found["chain"], fields["previous_ms"], fields["previous_sequence"],
        CONTENT_START, fields["base64"], CONTENT_END,
    )  # fmt: skip
    starts = range(0, len(signatures), SIGNATURE_BYTES)
    return TextColumns(
        messages=messages,
        digests=eip191_digests(signed.tobytes(), signed.shape[1]),
        signatures=[signatures[start : start + SIGNATURE_BYTES] for start in starts],
    )


def _are_numbers(written: ByteMatrix, numbers: Sequence[int]) -> bool:
    """Whether these are the numbers in decimal, without zeros in front."""
    are_as_wide = len(str(min(numbers))) == len(str(max(numbers))) == written.shape[1]
    return are_as_wide and written.tobytes() == "".join(map(str, numbers)).encode()


def _increase(timestamps_ms: Sequence[int], sequences: Sequence[int]) -> bool:
    references = list(zip(timestamps_ms, sequences, strict=True))
    return all(map(lt, references, references[1:]))


def _name_the_previous(fields: dict[str, ByteMatrix]) -> bool:
    """Compared as bytes: a run in which the number of digits changes is not read here."""
    return all(
        fields[previous].shape == fields[own].shape and bool((fields[previous][1:] == fields[own][:-1]).all())
        for previous, own in (("previous_ms", "timestamp_ms"), ("previous_sequence", "sequence"))
    )


def _join_columns(*parts: bytes | ByteMatrix) -> ByteMatrix:
    """Columns side by side; bytes are the same in every row."""
    rows = max(len(part) for part in parts if isinstance(part, np.ndarray))
    columns = (
        np.frombuffer(part, np.uint8)[None].repeat(rows, 0) if isinstance(part, bytes) else part for part in parts
    )
    return np.concatenate(list(columns), axis=1)


def _decode_base64(written: ByteMatrix) -> ByteMatrix:
    """Row by row. Raises ValueError unless all are base64, with as much padding as the first."""
    count, width = written.shape
    padding = written[0].tobytes().count(b"=")
    body = written.copy()
    body[:, width - padding :] = ord("A")  # so that all rows form one base64 text; the extra bytes are cut off again
    joined = body.tobytes()
    if width % 4 or b"=" in joined or (written[:, width - padding :] != ord("=")).any():
        raise ValueError("not base64 of one length")
    data = np.frombuffer(pybase64.b64decode(joined, validate=True), np.uint8)
    return data.reshape(count, -1)[:, : width // 4 * 3 - padding]
