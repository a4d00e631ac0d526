from hypothesis import given
from hypothesis import strategies as st

from protocol.iomessage import EMPTY_CHAIN, ChainHead, IoMessage, message_hash, seal
from protocol.iomessage.binary_seal import sealed_hash
from tests.unit.protocol.iomessage.samples import EVERY_FIELD, message


@given(st.binary(max_size=50), st.text(max_size=20), st.integers(0, 2**60))
def test_the_hash_of_the_bytes_is_the_hash_of_the_message(content: bytes, tag: str, position: int) -> None:
    head = ChainHead(position, "a3f1" * 16)
    sealed = seal(message(content_data=content, tag=tag), head)
    assert sealed_hash(sealed.to_bytes()) == sealed.hash == message_hash(sealed)


def test_all_fields_are_covered() -> None:
    sealed = seal(message(**EVERY_FIELD), EMPTY_CHAIN)
    data = sealed.to_bytes()
    assert sealed_hash(data) == sealed.hash
    for name in ("tag", "group_id", "context_data"):
        other = IoMessage.from_bytes(sealed.replace(**{name: type(getattr(sealed, name))()}).to_bytes())
        assert sealed_hash(other.to_bytes()) != sealed.hash
