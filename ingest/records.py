"""Decode one archived record: verify its signature, open its content, read its readings, and lay them out as rows.

`ingest/quick.py` decodes nearly every record. This module decodes every kind of message, more slowly, and reports what
is wrong with invalid ones.
"""

from typing import Final

from ingest.decoded import MAX_PARTITION, Decoded, Reading, check_fits, message_columns
from ingest.keyring import Keyring
from ingest.readings import join_links, read_content, read_nothing
from ingest.reasons import SIGNATURE_REASONS, Quarantined, Reason
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.iomessage.content import MAX_PACK_READINGS
from protocol.publisher_chain import REFRAMED, is_chain_id
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.stream_message import (
    EncryptionType,
    MessageType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.stream_message.signing import Verdict, Verifier, signed_digest

LOCKED: Final = "locked"
MIN_LOCKED_CHARACTERS: Final = 88  # of a reading: the header of an ioMessage in base64, encrypted, in hexadecimal
_verifier: Final = Verifier()  # which keys it has seen changes its speed, never its verdict


def decode_record(record: Record, number: int, device: str, keyring: Keyring) -> Decoded:
    """Decode a record of any kind. Raises: Quarantined."""
    message = verify_record(record, device)
    state, readings = open_content(message, record.readings, keyring)
    if len(readings) != record.readings:
        raise _miscounted(record.readings, f"it has {len(readings)}")
    stream_id, partition, timestamp_ms, sequence, _, msg_chain_id = message.message_id
    previous = message.prev_msg_ref and (message.prev_msg_ref.timestamp, message.prev_msg_ref.sequence_number)
    identity = (stream_id, partition, msg_chain_id)
    shared = message_columns(record, number, identity, previous, state, signed_digest(message), len(readings))
    if partition > MAX_PARTITION:
        raise Quarantined(Reason.NOT_A_MESSAGE, "a number in it is larger than a column holds")
    check_fits(shared)
    if state == LOCKED:
        keyring.miss(stream_id, message.group_key_id, timestamp_ms)
    return Decoded(
        identity,
        (timestamp_ms, sequence),
        (timestamp_ms, sequence),
        previous,
        join_links(readings),
        len(readings),
        [(*shared, index, *reading.columns) for index, reading in enumerate(readings)],
        [reading.event for reading in readings if reading.event is not None],
        [reading.boot for reading in readings if reading.boot is not None],
    )


def verify_record(record: Record, device: str) -> StreamMessage:
    """The message that the record holds, if its device signed it. Raises: Quarantined."""
    try:
        message = parse_stream_message(record.text)
    except WireError as error:
        raise Quarantined(Reason.NOT_A_MESSAGE, str(error)) from None
    _, _, timestamp_ms, sequence, publisher_id, _ = message.message_id
    if timestamp_ms != record.timestamp_ms or sequence != record.sequence:
        raise Quarantined(Reason.MISFILED, f"the message's own reference is {timestamp_ms}, {sequence}")
    if publisher_id != device and publisher_id.lower() != device:
        raise Quarantined(Reason.FOREIGN_PUBLISHER, f"its publisher is {publisher_id[:80]!r}")
    verdict = _verifier.verify(message)
    if verdict is not Verdict.VERIFIED:
        raise Quarantined(SIGNATURE_REASONS[verdict], str(verdict))
    _check_framing(message)
    return message


def _check_framing(message: StreamMessage) -> None:
    """What else a signed text could be cut into: a device signs neither such chain ids nor by ETH_LEGACY.

    Whatever the content: its type is not signed, so a reading can be shown as a message of another type.
    Raises: Quarantined.
    """
    if message.signature_type is SignatureType.ETH_LEGACY:
        raise Quarantined(Reason.SIGNATURE_UNCHECKABLE, "ETH_LEGACY signs neither partition, sequence number nor chain")
    if not is_chain_id(message.message_id.msg_chain_id):
        raise Quarantined(Reason.CHAIN_ID_MALFORMED, REFRAMED)


def _miscounted(stated: int, why: str) -> Quarantined:
    return Quarantined(Reason.READINGS_MISCOUNTED, f"the archive states {stated} readings; {why}")


def open_content(message: StreamMessage, stated: int, keyring: Keyring) -> tuple[str, list[Reading]]:
    """The state of the content, and its readings; `stated` are how many the archive says. Raises: Quarantined."""
    at_ms = message.message_id.timestamp
    if message.message_type is not MessageType.MESSAGE:
        return "other", [read_nothing(at_ms)]
    if message.encryption_type is EncryptionType.NONE:
        return "plain", read_content(message.content, at_ms)
    key = keyring.find(message.message_id.stream_id, message.group_key_id)
    if key is None or message.encryption_type is EncryptionType.RSA:
        return LOCKED, _locked_readings(message, stated)
    try:
        content, next_key = decrypt_message(message, key)
    except WireError as error:
        raise Quarantined(Reason.UNDECRYPTABLE, str(error)) from None
    if next_key is not None:
        keyring.learn(message.message_id.stream_id, next_key)
    return "decrypted", read_content(content, at_ms)


def _locked_readings(message: StreamMessage, stated: int) -> list[Reading]:
    """As many as the archive says, if the content is long enough for them. Raises: Quarantined."""
    needed = stated * MIN_LOCKED_CHARACTERS if stated > 1 else 0
    if stated > MAX_PACK_READINGS or len(message.content) < needed:
        raise _miscounted(stated, f"its encrypted content of {len(message.content)} characters cannot hold them")
    return [read_nothing(message.message_id.timestamp)] * stated
