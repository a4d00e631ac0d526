import pytest

from protocol.errors import Corrupt
from protocol.iomessage import EMPTY_CHAIN, ChainHead, ChainLinker, IoMessage, LinkedTemplate, verify_chain
from tests.support.iomessage_samples import EVERY_FIELD, REQUIRED_FIELDS, message


def test_linked_messages_form_a_chain_and_keep_what_the_prototype_says() -> None:
    template, linker = LinkedTemplate(message(**EVERY_FIELD)), ChainLinker(EMPTY_CHAIN)
    drafts = [(template, f"id-{number}", number, bytes(number), b"") for number in range(5)]
    messages = [IoMessage.from_bytes(data) for data in linker.link_all(drafts)]
    assert list(verify_chain(messages, head=EMPTY_CHAIN)) == []
    assert linker.head == ChainHead.of(messages[-1])
    assert [each.chain_position for each in messages] == [0, 1, 2, 3, 4]
    assert {(each.tag, each.group_id, each.priority, each.publisher) for each in messages} == {
        (EVERY_FIELD["tag"], "boiler", 0, REQUIRED_FIELDS["publisher"])
    }


def test_a_chain_of_nothing_stays_where_it_is() -> None:
    for head in (EMPTY_CHAIN, ChainHead(4, "ab" * 32)):
        linker = ChainLinker(head)
        assert linker.link_all([]) == []
        assert linker.head == head


@pytest.mark.parametrize(
    ("message_id", "timestamp", "problem"),
    [
        ("", 1, "required but missing: id"),
        ("é" * 200, 1, "id is 400 bytes long in UTF-8; the limit is 255"),
        ("x", -1, "timestamp must be between 0 and"),
        ("x", 0x4000_0000_0000_0000, "would read its 8 bytes as the double"),
    ],
)
def test_what_a_message_refuses_the_template_refuses(message_id: str, timestamp: int, problem: str) -> None:
    linker = ChainLinker(EMPTY_CHAIN)
    with pytest.raises(Corrupt, match=problem):
        linker.link_all([(LinkedTemplate(message()), message_id, timestamp, b"", b"")])
    assert linker.head == EMPTY_CHAIN
