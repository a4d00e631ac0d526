"""What the command line says of a StreamMessage."""

import json
from collections.abc import Callable, Sequence

import pytest

from agent.errors import ExitCode
from agent.operator.message_reports import StreamMessageReport, examine_stream_message
from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.iomessage import IoMessage
from protocol.streamr.group_keys.encryption import encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.pack_samples import (
    DEVICE,
    STREAM,
    binary_content,
    json_content,
    linked_readings,
    signed_message,
    unsigned_message,
)

SIGNER = Signer(b"\x01" * 32)
ADDRESS = "0x1a642f0e3c3af545e7acbd38b07251b3990914f1"


def signed(content: str = '{"temperature":21.5}', timestamp: int = 1_600_000_000_000) -> StreamMessage:
    message_id = MessageID("stream", 2, timestamp, 0, SIGNER.address, "chain")
    return sign_message(StreamMessage(message_id, content, MessageRef(0, 7)), SIGNER)


def test_verified_message_is_shown_with_its_signer() -> None:
    report = examine_stream_message(signed().serialize())
    assert report.exit_code is ExitCode.OK
    assert report.lines() == [
        "version           32",
        "stream id         stream",
        "stream partition  2",
        "timestamp         1600000000000 (2020-09-13T12:26:40.000+00:00)",
        "sequence number   0",
        f"publisher id      {ADDRESS}",
        "msg chain id      chain",
        "previous          0, 7",
        "message type      27 (message)",
        "encryption type   0 (none)",
        "group key id      none",
        "new group key     none",
        'content           {"temperature":21.5}',
        "signature type    2 (eth)",
        f"signature         {signed().signature}",
        f"signer            {ADDRESS}",
        "verdict           verified: the publisher signed this message",
    ]


def test_json_holds_every_field_and_the_verdict() -> None:
    report = examine_stream_message(signed().serialize().encode()).as_json()
    assert json.loads(json.dumps(report)) == {
        "version": 32,
        "draft": False,
        "message_id": {
            "stream_id": "stream",
            "stream_partition": 2,
            "timestamp": 1_600_000_000_000,
            "sequence_number": 0,
            "publisher_id": ADDRESS,
            "msg_chain_id": "chain",
        },
        "prev_msg_ref": {"timestamp": 0, "sequence_number": 7},
        "message_type": 27,
        "content_type": 0,
        "encryption_type": 0,
        "group_key_id": None,
        "new_group_key": None,
        "content": '{"temperature":21.5}',
        "signature_type": 2,
        "signature": signed().signature,
        "signer": ADDRESS,
        "verified": True,
        "verdict": "verified",
        "reason": "the publisher signed this message",
        "readings": [],
        "readings_problem": "",
        "chain_breaks": [],
    }


def test_changed_message_is_not_verified_and_tells_whose_signature_it_would_be() -> None:
    report = examine_stream_message(signed().replace(content="{}").serialize())
    assert report.exit_code is ExitCode.NO
    assert report.as_json()["verdict"] == "foreign"
    assert report.signer is not None
    assert report.signer != ADDRESS


def test_unsigned_message_is_not_verified_and_has_no_signer() -> None:
    unsigned = StreamMessage(MessageID("stream", 0, 0), "{}")
    report = examine_stream_message(unsigned.serialize())
    assert report.exit_code is ExitCode.NO
    assert "signer            none" in report.lines()
    assert report.lines()[-1] == "verdict           unsigned: the message is not signed"


@pytest.mark.parametrize("text", ["", "[32]", "{}", "[32,", "\ud800"])
def test_text_that_is_no_message_is_bad_data(text: str) -> None:
    with pytest.raises(WireError) as caught:
        examine_stream_message(text)
    assert caught.value.exit_code == ExitCode.BAD_DATA


def test_message_cannot_play_tricks_on_the_terminal() -> None:
    lines = examine_stream_message(signed("\x1b[2J\x7f\u202e\U000e0001é" + "x" * 9_999).serialize()).lines()
    assert all(line.isprintable() for line in lines)
    (content,) = [line for line in lines if line.startswith("content")]
    assert content.startswith(r"content           \x1b[2J\x7f\u202e\U000e0001éxxx")
    assert content.endswith("… (10007 characters)")


def test_timestamp_beyond_the_calendar_is_shown_as_a_number() -> None:
    lines = examine_stream_message(signed(timestamp=2**53 - 1).serialize()).lines()
    assert "timestamp         9007199254740991 (9007199254740991 ms)" in lines


def report_of(content: str) -> StreamMessageReport:
    return examine_stream_message(signed_message(content).serialize())


@pytest.mark.parametrize("encode", [binary_content, json_content])
def test_the_readings_of_a_pack_are_shown_in_a_table(encode: Callable[[Sequence[IoMessage]], str]) -> None:
    report = report_of(encode(linked_readings(3)))
    assert report.exit_code is ExitCode.OK
    assert report.lines()[-4:] == [
        "readings          3, hash chain unbroken",
        "  2023-11-14T22:13:20.000Z  boiler  temperature  20.0 Cel",
        "  2023-11-14T22:13:21.000Z  boiler  temperature  20.5 Cel",
        "  2023-11-14T22:13:22.000Z  boiler  temperature  21.0 Cel",
    ]


def test_one_reading_is_shown_like_a_pack() -> None:
    assert report_of(binary_content(linked_readings(1))).lines()[-2:] == [
        "readings          1, hash chain unbroken",
        "  2023-11-14T22:13:20.000Z  boiler  temperature  20.0 Cel",
    ]


def test_a_large_pack_is_shown_in_part_and_whole_as_json() -> None:
    report = report_of(binary_content(linked_readings(100)))
    assert report.lines()[-1] == "  … and 80 more; --json shows all"
    shown = json.loads(json.dumps(report.as_json()))["readings"]
    assert [each["value"] for each in shown] == [20 + number / 2 for number in range(100)]
    assert shown[99]["io_message"]["chainposition"] == 99


def test_a_pack_with_a_broken_hash_chain_is_not_verified() -> None:
    readings = linked_readings(4)
    del readings[2]
    report = report_of(binary_content(readings))
    assert report.verdict
    assert report.exit_code is ExitCode.NO
    assert report.decoding_exit_code is ExitCode.OK
    (line,) = [line for line in report.lines() if line.startswith("readings")]
    assert line.startswith("readings          3, hash chain BROKEN in 1 of 3 readings; reading 2 is missing: ")
    assert [each["kind"] for each in report.as_json()["chain_breaks"]] == ["missing"]


def test_readings_without_hashes_say_so() -> None:
    unlinked = [IoMessage._make(each._replace(hash=None)) for each in linked_readings(2)]
    assert "readings          2, not hash-linked" in report_of(binary_content(unlinked)).lines()


def test_a_pack_that_cannot_be_decoded_is_bad_data_with_the_reason() -> None:
    report = report_of('{"ioMessages":"AAAA"}')
    assert report.exit_code is report.decoding_exit_code is ExitCode.BAD_DATA
    assert report.lines()[-1].startswith("readings          unreadable: in a pack: ")
    assert report.as_json()["readings"] is None
    assert report.as_json()["readings_problem"].startswith("in a pack: ")


def test_an_encrypted_pack_says_so_and_is_decrypted_with_its_key() -> None:
    key = GroupKey("a key", b"\x11" * 32)
    plain = unsigned_message(binary_content(linked_readings(3)))
    text = sign_message(encrypt_message(plain, key, bytes), DEVICE).serialize()
    report = examine_stream_message(text)
    assert (report.exit_code, report.decoding_exit_code) == (ExitCode.OK, ExitCode.OK)
    locked = "locked: encrypted with group key a key; give --group-keys FILE that contains it"
    assert report.lines()[-1] == f"readings          {locked}"
    report = examine_stream_message(text, lambda stream: {"a key": key} if stream == STREAM else {})
    assert "readings          3, hash chain unbroken" in report.lines()
