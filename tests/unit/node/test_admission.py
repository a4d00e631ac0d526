"""The rules for a message, one by one."""

import pytest

from node.admission import (
    MAX_CHAIN_ID_CHARACTERS,
    check_chain_id,
    check_key_exchange,
    check_settings,
    check_signature,
    check_timestamp,
    check_unsigned_author,
)
from node.errors import ErrorCode, Refused
from node.limits import MAX_AHEAD_MS
from node.streams import KEY_EXCHANGE_PREFIX
from protocol.streamr.stream_message import EncryptionType, MessageType
from protocol.streamr.stream_message.signing import Verdict, sign_message
from tests.support.node_samples import ALICE, BOB, NOW_MS, a_message, a_signed_message, a_stream
from tests.support.reframing import moved_into_chain_id


def test_a_timestamp_five_minutes_ahead_is_taken_and_one_beyond_is_not() -> None:
    check_timestamp(a_message(MAX_AHEAD_MS), NOW_MS)

    with pytest.raises(Refused, match=r"max allowed \+300000 ms") as refused:
        check_timestamp(a_message(MAX_AHEAD_MS + 1), NOW_MS)
    assert refused.value.code is ErrorCode.FUTURE_TIMESTAMP


def test_a_chain_id_is_bounded() -> None:
    check_chain_id(a_message(chain="c" * MAX_CHAIN_ID_CHARACTERS))
    with pytest.raises(Refused, match="has 65 characters, more than 64"):
        check_chain_id(a_message(chain="c" * (MAX_CHAIN_ID_CHARACTERS + 1)))


@pytest.mark.parametrize("content", ['{"ioMessage":"AAAA"}', '{"ioMessages":"AAAA"}', '{"ioMessages":[{},{}]}'])
def test_a_reading_needs_the_chain_id_of_a_publisher(content: str) -> None:
    reading = a_message(chain="c" * 20, previous=0).replace(content=content)
    signed = sign_message(reading, ALICE)
    check_chain_id(signed)
    cuts = [cut for cut in moved_into_chain_id(signed) if cut.message_id.msg_chain_id != "c" * 20]
    assert cuts
    for cut in cuts:
        with pytest.raises(Refused, match="not of the form that Headgate publishers use"):
            check_chain_id(cut)


def test_a_stream_without_demands_takes_what_is_plain_and_unsigned() -> None:
    check_settings(a_message(), a_stream())


@pytest.mark.parametrize(
    ("fields", "settings", "problem"),
    [
        ({"partition": 3}, {"partitions": 3}, "3 partitions, not a partition 3"),
        ({}, {"require_signed_data": True}, "accepts only signed messages"),
        ({}, {"require_encrypted_data": True}, "accepts only encrypted messages"),
        ({"message_type": MessageType.GROUP_KEY_REQUEST}, {}, "only on a key exchange stream"),
    ],
)
def test_a_stream_refuses_what_breaks_its_settings(
    fields: dict[str, object], settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(Refused, match=problem) as refused:
        check_settings(a_message(**fields), a_stream(**settings))  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.REQUEST_FAILED


def test_a_stream_with_demands_takes_what_meets_them() -> None:
    message = a_signed_message(encryption_type=EncryptionType.AES, group_key_id="key")
    check_settings(message, a_stream(require_signed_data=True, require_encrypted_data=True))


@pytest.mark.parametrize("stream_id", [KEY_EXCHANGE_PREFIX + BOB.address, BOB.address])
def test_signed_key_exchange_messages_pass_on_both_kinds_of_key_exchange_stream(stream_id: str) -> None:
    check_key_exchange(a_signed_message(stream_id=stream_id, message_type=MessageType.GROUP_KEY_REQUEST))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"message_type": MessageType.GROUP_KEY_REQUEST}, "must be signed"),
        ({"message_type": MessageType.MESSAGE}, "accepts only key exchange messages"),
        ({"message_type": MessageType.GROUP_KEY_REQUEST, "partition": 1}, "on partition 0"),
        ({"stream_id": KEY_EXCHANGE_PREFIX + "unknown"}, "of a key exchange stream"),
    ],
)
def test_a_key_exchange_stream_refuses_everything_else(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        check_key_exchange(a_message(**{"stream_id": KEY_EXCHANGE_PREFIX + BOB.address, **fields}))  # type: ignore[arg-type]


def test_what_is_signed_must_verify_and_what_is_not_need_not() -> None:
    check_signature(Verdict.VERIFIED)
    check_signature(Verdict.UNSIGNED)
    for verdict in (Verdict.FOREIGN, Verdict.MALFORMED, Verdict.UNCHECKABLE):
        with pytest.raises(Refused, match="the signature is not valid"):
            check_signature(verdict)


def test_an_unsigned_message_of_another_publisher_is_refused() -> None:
    check_unsigned_author(a_message(publisher=ALICE.address.upper().replace("0X", "0x")), ALICE.address)
    check_unsigned_author(a_message(publisher="a name of old"), BOB.address)
    for user in (BOB.address, ""):
        with pytest.raises(Refused) as refused:
            check_unsigned_author(a_message(), user)
        assert refused.value.code is ErrorCode.PERMISSION_DENIED
