import pytest

from protocol.errors import Corrupt
from protocol.iomessage import EMPTY_CHAIN, IoMessage, SealedTemplate, verify_chain
from tests.unit.protocol.iomessage.samples import EVERY_FIELD, REQUIRED_FIELDS, message


def test_sealed_messages_form_a_chain_and_keep_what_the_prototype_says() -> None:
    template, head, messages = SealedTemplate(message(**EVERY_FIELD)), EMPTY_CHAIN, []
    for number in range(5):
        data, head = template.seal(id=f"id-{number}", timestamp=number, content_data=bytes(number), head=head)
        messages.append(IoMessage.from_bytes(data))
    assert list(verify_chain(messages, head=EMPTY_CHAIN)) == []
    assert [each.chain_position for each in messages] == [0, 1, 2, 3, 4]
    assert {(each.tag, each.group_id, each.priority, each.publisher) for each in messages} == {
        (EVERY_FIELD["tag"], "boiler", 0, REQUIRED_FIELDS["publisher"])
    }


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"id": ""}, "required but missing: id"),
        ({"id": "é" * 200}, "id is 400 bytes long in UTF-8; the limit is 255"),
        ({"timestamp": -1}, "timestamp must be between 0 and"),
        ({"timestamp": 0x4000_0000_0000_0000}, "would take its 8 bytes for the double"),
    ],
)
def test_what_a_message_refuses_the_template_refuses(wrong: dict[str, str | int], problem: str) -> None:
    template = SealedTemplate(message())
    with pytest.raises(Corrupt, match=problem):
        template.seal(**{"id": "x", "timestamp": 1, "content_data": b"", "head": EMPTY_CHAIN} | wrong)  # type: ignore[arg-type]
