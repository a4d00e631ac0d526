import hashlib
import subprocess
from collections.abc import Callable

import pytest

from protocol.iomessage import (
    EMPTY_CHAIN,
    BreakKind,
    ChainHead,
    IoMessage,
    hash_link,
    message_hash,
    verify_chain,
)
from protocol.iomessage.chain import leading_zero_bits
from tests.support.iomessage_samples import message


def chain_of(length: int, *, tag: str = "", head: ChainHead = EMPTY_CHAIN) -> list[IoMessage]:
    messages = []
    for number in range(length):
        messages.append(hash_link(message(sequence_number=number, tag=f"{tag}{number}"), head))
        head = ChainHead.of(messages[-1])
    return messages


def breaks(messages: list[IoMessage], head: ChainHead | None = None) -> list[tuple[int, BreakKind]]:
    return [(found.index, found.kind) for found in verify_chain(messages, head=head)]


def test_the_hash_is_sha256_of_the_binary_embodiment_with_the_hash_field_empty() -> None:
    linked = hash_link(message(), EMPTY_CHAIN)
    assert linked.hash == hashlib.sha256(linked.replace(hash=None).to_bytes()).hexdigest()


def test_sha256sum_gives_the_same_hash() -> None:
    linked = hash_link(message(), EMPTY_CHAIN)
    done = subprocess.run(["sha256sum"], input=linked.replace(hash=None).to_bytes(), capture_output=True, check=True)
    assert done.stdout.split()[0].decode() == linked.hash


def test_a_whole_chain_has_no_breaks_from_its_start_and_from_its_middle() -> None:
    messages = chain_of(20)
    assert breaks(messages) == []
    assert breaks(messages, EMPTY_CHAIN) == []
    assert breaks(messages[7:]) == []
    assert breaks(messages[7:], ChainHead.of(messages[6])) == []


def test_a_chain_that_does_not_begin_where_it_should_is_missing_messages() -> None:
    assert breaks(chain_of(5)[2:], EMPTY_CHAIN) == [(0, BreakKind.MISSING)]


@pytest.mark.parametrize(
    "embodiment", [lambda m: IoMessage.from_json(m.to_json()), lambda m: IoMessage.from_xml(m.to_xml())]
)
def test_a_chain_survives_json_and_xml(embodiment: Callable[[IoMessage], IoMessage]) -> None:
    assert breaks([embodiment(each) for each in chain_of(5)], EMPTY_CHAIN) == []


def test_an_altered_message_is_the_only_break() -> None:
    messages = chain_of(6)
    messages[3] = messages[3].replace(content_data=b"forged")
    assert breaks(messages) == [(3, BreakKind.ALTERED)]


def test_a_replaced_message_with_a_good_hash_of_its_own_breaks_the_next_link() -> None:
    messages = chain_of(6)
    messages[3] = hash_link(messages[3].replace(content_data=b"forged"), ChainHead.of(messages[2]))
    assert breaks(messages) == [(4, BreakKind.FORKED)]


def test_missing_messages_are_counted() -> None:
    messages = chain_of(8)
    del messages[3:5]
    found = list(verify_chain(messages))
    assert [each.kind for each in found] == [BreakKind.MISSING]
    assert "2 messages, positions 3 to 4, are missing before it" in str(found[0])
    assert f"message 3 (id {messages[3].id}) is missing" in str(found[0])


def test_a_late_message_is_missing_where_it_should_be_and_reordered_where_it_comes() -> None:
    messages = chain_of(6)
    messages[2], messages[3] = messages[3], messages[2]
    assert breaks(messages) == [(2, BreakKind.MISSING), (3, BreakKind.REORDERED)]


def test_a_repeated_message_is_no_fork() -> None:
    messages = chain_of(4)
    assert breaks([*messages, messages[1]]) == [(4, BreakKind.REPEATED)]


def test_two_messages_at_one_position_are_a_fork() -> None:
    messages = chain_of(4)
    other = chain_of(3, tag="other")
    assert breaks([*messages, other[2]]) == [(4, BreakKind.FORKED)]


def test_a_late_message_that_does_not_fit_its_neighbours_is_a_fork() -> None:
    messages, other = chain_of(6), chain_of(6, tag="other")
    assert breaks([*messages[:3], *messages[4:], other[3]]) == [(3, BreakKind.MISSING), (5, BreakKind.FORKED)]


def test_a_late_message_that_does_not_follow_the_previous_one_is_a_fork() -> None:
    messages, other = chain_of(8), chain_of(6, tag="other")
    assert breaks([*messages[:3], messages[6], other[3]]) == [(3, BreakKind.MISSING), (4, BreakKind.FORKED)]


def test_a_message_without_hash_is_unlinked() -> None:
    assert breaks([message(), message(hash="ab"), message(chain_position=0, hash="")]) == [
        (0, BreakKind.UNLINKED),
        (1, BreakKind.UNLINKED),
        (2, BreakKind.UNLINKED),
    ]


def test_work_is_done_and_checked() -> None:
    linked = hash_link(message(), EMPTY_CHAIN, difficulty_target=8)
    assert linked.hash is not None
    assert linked.hash.startswith("00")
    assert linked.nonce
    assert breaks([linked]) == []


def test_a_hash_that_does_not_reach_its_own_target_is_unworked() -> None:
    lazy = hash_link(message(), EMPTY_CHAIN).replace(difficulty_target=200)
    lazy = lazy.replace(hash=message_hash(lazy))
    assert breaks([lazy]) == [(0, BreakKind.UNWORKED)]


def test_an_impossible_difficulty_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 256 bits, and is 257"):
        hash_link(message(), EMPTY_CHAIN, difficulty_target=257)


def test_an_incomplete_message_is_not_linked() -> None:
    with pytest.raises(
        ValueError, match="a message without id, timestamp, publisher, info_type, info_format is not linked"
    ):
        hash_link(IoMessage.from_bytes(b"\x00\x04" + bytes(31)), EMPTY_CHAIN)


def test_a_head_needs_a_linked_message() -> None:
    with pytest.raises(ValueError, match="not linked"):
        ChainHead.of(message())


def test_leading_zero_bits_are_counted_in_bits() -> None:
    assert leading_zero_bits("0" * 64) == 256
    assert leading_zero_bits("1" + "0" * 63) == 3
    assert leading_zero_bits("f" + "0" * 63) == 0


def test_a_message_that_cannot_be_written_again_is_altered_not_a_crash() -> None:
    linked = hash_link(message(id="x" * 200), EMPTY_CHAIN)
    read = IoMessage.from_bytes(linked.to_bytes().replace(b"x" * 200, b"\xe9" * 200))
    assert breaks([read]) == [(0, BreakKind.ALTERED)]
