import pytest

from agent.operator import reading_checks
from agent.operator.reading_checks import HashChains, SeenMessages, break_text, chain_breaks
from agent.operator.readings import readings_in
from protocol.iomessage import ChainHead, IoMessage
from protocol.scalars import encode_scalar
from tests.support.pack_samples import json_content, linked_readings, unsigned_message


def altered(reading: IoMessage) -> IoMessage:
    return IoMessage._make(reading._replace(content_data=encode_scalar(99.0)))


def test_a_pack_with_an_unbroken_chain_has_no_breaks() -> None:
    assert chain_breaks(linked_readings(250)) == []


def test_readings_without_hashes_are_not_checked() -> None:
    assert chain_breaks([IoMessage._make(each._replace(hash=None)) for each in linked_readings(2)]) == []


def test_each_altered_removed_or_swapped_reading_is_a_break() -> None:
    first, second, third = linked_readings(3)
    assert [each.kind.value for each in chain_breaks([first, altered(second), third])] == ["altered"]
    assert [each.kind.value for each in chain_breaks([first, third])] == ["missing"]
    assert [each.kind.value for each in chain_breaks([first, third, second])] == ["missing", "reordered"]


def test_breaks_are_counted_and_the_first_is_named() -> None:
    readings = [altered(each) for each in linked_readings(3)]
    text = break_text(chain_breaks(readings), 3)
    assert text.startswith("3 of 3 readings; reading 0 is altered: its content hashes to ")


def test_the_chain_is_followed_from_message_to_message() -> None:
    readings, chains = linked_readings(10), HashChains()
    assert chains.follow(unsigned_message("{}", 0), readings[:4]) == []
    assert chains.follow(unsigned_message("{}", 1), readings[4:5]) == []
    (found,) = chains.follow(unsigned_message("{}", 2), readings[6:])
    assert (found.index, found.kind.value) == (0, "missing")


def test_the_chain_begins_anew_after_a_message_that_was_not_seen() -> None:
    readings, chains = linked_readings(10), HashChains()
    assert chains.follow(unsigned_message("{}", 0), readings[:4]) == []
    assert chains.follow(unsigned_message("{}", 2), readings[6:]) == []


def test_chains_of_other_ids_are_followed_apart() -> None:
    chains = HashChains()
    assert chains.follow(unsigned_message("{}", 0, chain="one"), linked_readings(2)) == []
    assert chains.follow(unsigned_message("{}", 1, chain="two"), linked_readings(2)) == []
    after = linked_readings(2, ChainHead.of(linked_readings(2)[-1]))
    assert chains.follow(unsigned_message("{}", 1, chain="one"), after) == []


def test_a_message_with_other_content_interrupts_a_chain() -> None:
    readings, chains = linked_readings(4), HashChains()
    assert chains.follow(unsigned_message("{}", 0), readings[:1]) == []
    assert chains.follow(unsigned_message("{}", 1), ()) == []
    assert chains.follow(unsigned_message("{}", 2), readings[3:]) == []


def test_readings_that_came_in_another_message_are_duplicates() -> None:
    seen, readings = SeenMessages(), linked_readings(3)
    assert not seen.is_duplicate(unsigned_message("{}", 0), readings)
    assert not seen.is_duplicate(unsigned_message("{}", 0), readings), "the same message once more is not"
    assert seen.is_duplicate(unsigned_message("{}", 1), readings)
    assert not seen.is_duplicate(unsigned_message("{}", 1), ())


def test_readings_without_hashes_are_never_duplicates() -> None:
    seen = SeenMessages()
    unlinked = readings_in(json_content([IoMessage._make(linked_readings(1)[0]._replace(hash=None))]))
    assert not any(seen.is_duplicate(unsigned_message("{}", number), unlinked) for number in range(3))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    chains, seen, readings = HashChains(), SeenMessages(), linked_readings(1)
    monkeypatch.setattr(reading_checks, "MAX_FOLLOWED_CHAINS", 3)
    monkeypatch.setattr(reading_checks, "MAX_SEEN_MESSAGES", 3)
    for number, reading in enumerate(linked_readings(9)):
        chains.follow(unsigned_message("{}", 0, chain=str(number)), readings)
        seen.is_duplicate(unsigned_message("{}", number), [reading])
    assert len(chains._ends) == len(seen._seen) == 3
