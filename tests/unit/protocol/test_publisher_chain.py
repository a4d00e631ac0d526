import secrets

import pytest

from protocol.ethereum.signer import Signer
from protocol.iomessage import IoMessage
from protocol.iomessage.content import carries_io_message
from protocol.publisher_chain import CHAIN_ID_RANDOM_BYTES, is_chain_id
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message, verify
from tests.support.reframing import moved_into_chain_id

SIGNER = Signer(b"\x07" * 32)


def test_what_publishers_draw_is_of_the_form() -> None:
    assert all(is_chain_id(secrets.token_urlsafe(CHAIN_ID_RANDOM_BYTES)) for _ in range(100))


@pytest.mark.parametrize("text", ["", "a" * 19, "a" * 21, "a" * 19 + "é", "a" * 19 + " ", "a" * 20 + "17000000000000"])
def test_what_is_longer_shorter_or_of_other_characters_is_not(text: str) -> None:
    assert not is_chain_id(text)


def test_readings_in_both_embodiments_are_known_and_other_contents_are_not() -> None:
    reading = IoMessage(id="x", timestamp=1, publisher="p", info_type="t", info_format="f", content_data=b"x")
    assert carries_io_message('{"ioMessage":"AAAA"}')
    assert carries_io_message('{"ioMessages":"AAAA"}')
    assert carries_io_message(reading.to_json())
    for other in ('{"n":1}', "", '{"id":"x"}', "[]", "ioMessage"):
        assert not carries_io_message(other)


@pytest.mark.parametrize("chain", ["a" * 20, "a" * 10 + "1234567890", "0" * 20])
@pytest.mark.parametrize("prev", [None, MessageRef(1_700_000_000_000, 0), MessageRef(1_699_999_999_999, 123)])
def test_no_other_cut_of_a_signed_text_has_a_chain_id_of_the_form(chain: str, prev: MessageRef | None) -> None:
    message_id = MessageID("stream", 0, 1_700_000_000_123, 7, SIGNER.address, chain)
    message = sign_message(StreamMessage(message_id, '{"ioMessage":"AAAA"}', prev_msg_ref=prev), SIGNER)
    cuts = list(moved_into_chain_id(message))
    others = [cut for cut in cuts if cut.message_id.msg_chain_id != chain]
    assert others or (prev is None and not chain[-1].isdecimal())
    assert all(verify(cut) for cut in cuts)  # the signature holds for every one of them
    assert not any(is_chain_id(cut.message_id.msg_chain_id) for cut in others)
