from hypothesis import given
from hypothesis import strategies as st

from protocol.iomessage import EMPTY_CHAIN, ChainHead, IoMessage, hash_link, message_hash
from protocol.iomessage.binary_hash import hash_of_binary
from tests.support.iomessage_samples import EVERY_FIELD, message


@given(st.binary(max_size=50), st.text(max_size=20), st.integers(0, 2**60))
def test_the_hash_of_the_bytes_is_the_hash_of_the_message(content: bytes, tag: str, position: int) -> None:
    head = ChainHead(position, "a3f1" * 16)
    linked = hash_link(message(content_data=content, tag=tag), head)
    assert hash_of_binary(linked.to_bytes()) == linked.hash == message_hash(linked)


def test_all_fields_are_covered() -> None:
    linked = hash_link(message(**EVERY_FIELD), EMPTY_CHAIN)
    data = linked.to_bytes()
    assert hash_of_binary(data) == linked.hash
    for name in ("tag", "group_id", "context_data"):
        other = IoMessage.from_bytes(linked.replace(**{name: type(getattr(linked, name))()}).to_bytes())
        assert hash_of_binary(other.to_bytes()) != linked.hash
