import pytest

from protocol.devicelog.frontier import Frontier
from protocol.devicelog.merkle import EMPTY_ROOT
from protocol.errors import WireError
from protocol.strict_cbor import CborValue
from tests.unit.protocol.devicelog.test_merkle import LEAVES, ROOTS


def test_it_grows_to_the_roots_of_the_public_vectors() -> None:
    frontier = Frontier()
    assert (frontier.size, frontier.root) == (0, EMPTY_ROOT)
    for size, leaf in enumerate(LEAVES, 1):
        frontier = frontier.append(leaf)
        assert (frontier.size, frontier.root) == (size, ROOTS[size])
    assert Frontier().extend(LEAVES) == frontier


def test_it_is_a_few_hashes_however_long_the_log_is() -> None:
    assert len(Frontier().extend(LEAVES[:1] * 1000).peaks) == (1000).bit_count()


def test_it_is_the_same_after_writing_and_reading() -> None:
    frontier = Frontier().extend(LEAVES[:7])
    assert Frontier.from_cbor(frontier.to_cbor()) == frontier


@pytest.mark.parametrize(
    "value", [[3, []], [0, [bytes(32)]], [1, [b"short"]], [-1, []], [2**33, []], ["1", []], [1], None, [1, bytes(32)]]
)
def test_anything_else_is_corrupt(value: CborValue) -> None:
    with pytest.raises(WireError):
        Frontier.from_cbor(value)
