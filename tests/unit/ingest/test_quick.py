"""The short way takes nothing that the long way would refuse, and makes the same row of what it takes."""

import base64
from typing import Any

import cbor2
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decoded import EARLIEST_MESSAGE_MS
from ingest.keyring import Keyring
from ingest.quick import QuickReader
from ingest.reasons import Quarantined, Reason
from ingest.records import decode_record, verify_record
from protocol.archive.records import Record
from protocol.clock import ClockContext
from protocol.events import GAP_INFO_TYPE
from protocol.iomessage import EMPTY_CHAIN, IoMessage, hash_link
from protocol.iomessage.as_bytes import Profile
from protocol.streamr.stream_message import EncryptionType, MessageType
from protocol.streamr.stream_message.signing import sign_message, verify
from testbed.corpus.archives import MSG_CHAIN_ID, Device
from tests.support.fast_readings import quick_reader, read_fast
from tests.support.reframing import moved_into_chain_id, shown_as_legacy

DEVICE = Device(5)
CHAIN = DEVICE.chain("boiler")
MADE = [CHAIN.reading(float(number), 1_790_000_000_000 + number) for number in range(3)]
ELEMENTS = [orjson.loads(made.text) for made in MADE]
ODD: list[Any] = [None, True, False, 0, 1, 2, 27, 32, 0.0, "0", "", "32", [], {}, [1, 2], -1, 2**60]


def record(elements: Any, *, ref: tuple[int, int] | None = None) -> Record:
    timestamp_ms, sequence = ref or MADE[1].ref
    text = elements if isinstance(elements, bytes) else orjson.dumps(elements)
    return Record(text, "boiler", timestamp_ms, sequence, 0, 0, 0)


@pytest.fixture(scope="module")
def quick() -> QuickReader:
    return quick_reader(DEVICE)


def read(quick: QuickReader, filed: Record, *, in_columns: bool = True) -> Any:
    return read_fast(quick, filed, in_columns=in_columns)


def test_the_usual_message_is_taken(quick: QuickReader) -> None:
    opened = read(quick, record(ELEMENTS[1]))
    assert opened.identity == (CHAIN.stream_id, 0, MSG_CHAIN_ID)
    assert (opened.first, opened.last, opened.previous) == (MADE[1].ref, MADE[1].ref, MADE[0].ref)
    assert read(quick, record(ELEMENTS[0], ref=MADE[0].ref)).previous is None


def test_a_message_filed_elsewhere_or_of_another_device_is_not_taken(quick: QuickReader) -> None:
    assert read(quick, record(ELEMENTS[1], ref=MADE[2].ref)) is None
    assert read(quick_reader(Device(6)), record(ELEMENTS[1])) is None
    assert read(quick, record(ELEMENTS[1])._replace(readings=2)) is None


def test_a_reading_with_its_previous_reference_moved_into_the_chain_id_goes_into_quarantine(quick: QuickReader) -> None:
    cuts = [cut for cut in moved_into_chain_id(MADE[1].message) if cut.message_id.msg_chain_id != MSG_CHAIN_ID]
    assert cuts
    for cut in cuts:
        filed = record(cut.serialize().encode())
        assert read(quick, filed) is None
        with pytest.raises(Quarantined) as rejected:
            decode_record(filed, 0, DEVICE.address, Keyring())
        assert rejected.value.reason is Reason.CHAIN_ID_MALFORMED


def test_a_reframed_message_goes_into_quarantine_whatever_type_it_is_shown_as() -> None:
    cut = next(cut for cut in moved_into_chain_id(MADE[1].message) if cut.message_id.msg_chain_id != MSG_CHAIN_ID)
    shown = [
        cut.replace(message_type=MessageType.GROUP_KEY_REQUEST),
        cut.replace(encryption_type=EncryptionType.AES, group_key_id="unknown"),
        shown_as_legacy(MADE[1].message, digits=13),
    ]
    reasons = []
    for message in shown:
        assert verify(message)
        filed = record(message.serialize().encode(), ref=message.message_id.ref)
        with pytest.raises(Quarantined) as rejected:
            decode_record(filed, 0, DEVICE.address, Keyring())
        reasons.append(rejected.value.reason)
    assert reasons == [Reason.CHAIN_ID_MALFORMED, Reason.CHAIN_ID_MALFORMED, Reason.SIGNATURE_UNCHECKABLE]


@pytest.mark.parametrize("at_ms", [EARLIEST_MESSAGE_MS - 1, EARLIEST_MESSAGE_MS])
def test_both_ways_judge_alike_whether_the_time_of_a_message_is_out_of_range(quick: QuickReader, at_ms: int) -> None:
    made = DEVICE.chain("old").reading(1.0, at_ms)
    filed = record(made.text, ref=made.ref)
    _agree(quick, filed)
    assert (read(quick, filed) is None) == (at_ms < EARLIEST_MESSAGE_MS)


@pytest.mark.parametrize("odd", ODD)
def test_an_element_that_is_changed_is_judged_as_the_long_way_judges_it(quick: QuickReader, odd: Any) -> None:
    for place in range(len(ELEMENTS[1])):
        elements = [*ELEMENTS[1]]
        elements[place] = odd
        _agree(quick, record(elements))


@pytest.mark.parametrize("odd", [*ODD, 1_790_000_000_001.0, MSG_CHAIN_ID])
def test_a_part_of_an_id_that_is_changed_is_judged_as_the_long_way_judges_it(quick: QuickReader, odd: Any) -> None:
    for at, places in ((1, 6), (2, 2)):
        for place in range(places):
            elements = [*ELEMENTS[1]]
            elements[at] = [*elements[at]]
            elements[at][place] = odd
            _agree(quick, record(elements))


@given(flip=st.integers(0, len(MADE[1].text) - 1), bit=st.integers(0, 7))
def test_a_bit_that_is_flipped_is_judged_as_the_long_way_judges_it(quick: QuickReader, flip: int, bit: int) -> None:
    text = bytearray(MADE[1].text)
    text[flip] ^= 1 << bit
    _agree(quick, record(bytes(text)))


def _agree(quick: QuickReader, filed: Record) -> None:
    """Whatever the short way takes, the long way takes too, and makes the same of it."""
    for in_columns in (True, False):
        decoded = read(quick, filed, in_columns=in_columns)
        if decoded is not None:
            assert decoded == decode_record(filed, 0, DEVICE.address, Keyring())  # raises if it refuses


READINGS: list[Any] = [20.5, float("inf"), 7, -3, 2**70, True, None, "open", b"\x00\xff", ""]
FIELDS: list[dict[str, Any]] = [
    {},
    {"sequence_number": 3, "sequence_total": 2**32},
    {"priority": 2**40},
    {"priority": 0, "tag": "t", "group_id": "g", "auth_id": "a", "nonce": "n"},
    {"publisher": "größer"},
    {"info_format": "application/cbor"},
    {"info_format": "text/plain"},
    {"info_type": GAP_INFO_TYPE},
    {"timestamp": 0},
    {"timestamp": 2**40},
    {"chain_position": 2**50},
    {"hash": "00" * 32},
    {"difficulty_target": 4},
    {"context_data": b"\xa0"},
    {"context_data": ClockContext(boot_id=bytes(16), monotonic_ms=5, is_synchronised=False).to_bytes()},
]


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("fields", FIELDS)
def test_an_unusual_reading_is_judged_as_the_long_way_judges_it(
    quick: QuickReader, fields: dict[str, Any], is_linked: bool
) -> None:
    for value in READINGS:
        _agree(quick, _reading(fields, value, is_linked=is_linked))
    if not {"priority", "sequence_total", "chain_position"} & fields.keys():
        _agree(quick, _reading(fields, 20.5, is_linked=is_linked, profile="agent"))


def _reading(fields: dict[str, Any], value: Any, *, is_linked: bool, profile: Profile = "minimal") -> Record:
    usual = {
        "id": "x",
        "timestamp": MADE[1].ref[0],
        "publisher": "boiler",
        "info_type": "temperature",
        "info_format": "Cel/cbor",
        "content_data": cbor2.dumps(value),
    }
    io = IoMessage(**{**usual, **fields})
    written = hash_link(io, EMPTY_CHAIN).replace(**fields) if is_linked else io
    content = base64.b64encode(written.to_bytes(profile=profile)).decode()
    message = MADE[1].message.replace(content=f'{{"ioMessage":"{content}"}}')
    return record(sign_message(message, DEVICE.signer).serialize().encode())


def test_a_usual_reading_goes_the_short_way(quick: QuickReader) -> None:
    assert read(quick, _reading({}, 20.5, is_linked=True)) is not None
    assert read(quick, _reading({}, 20.5, is_linked=False)) is not None
    assert read(quick, _reading({"info_format": "text/plain"}, 20.5, is_linked=True)) is not None


@given(data=st.binary(max_size=64))
def test_any_content_is_judged_as_the_long_way_judges_it(quick: QuickReader, data: bytes) -> None:
    content = f'{{"ioMessage":"{base64.b64encode(data).decode()}"}}'
    signed = sign_message(MADE[1].message.replace(content=content), DEVICE.signer)
    _agree(quick, record(signed.serialize().encode()))


@pytest.mark.parametrize("stream", ["größe", 'a"b', "a\\b", "a,b", "a/b c", "\x7f"])
def test_any_stream_is_judged_as_the_long_way_judges_it(quick: QuickReader, stream: str) -> None:
    for partition in (0, 7, 10**9, 2**31, 2**52):
        place = MADE[1].message.message_id._replace(stream_id=stream, stream_partition=partition)
        signed = sign_message(MADE[1].message.replace(message_id=place), DEVICE.signer)
        _agree(quick, record(signed.serialize().encode()))


def test_the_long_way_refuses_what_was_tampered_with() -> None:
    elements = [*ELEMENTS[1]]
    elements[7] = ELEMENTS[2][7]
    with pytest.raises(Quarantined, match="did not sign"):
        verify_record(record(elements), DEVICE.address)
