import pytest

from testbed.cable import CLEAN, Faults, Spoiler

MANY = bytes(range(256)) * 400


def differing_bits(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def test_a_clean_line_changes_nothing() -> None:
    assert Spoiler(CLEAN, 1).spoil(MANY) == MANY


def test_the_same_seed_spoils_in_the_same_way_however_the_bytes_are_cut() -> None:
    faults = Faults(bit_flips=0.001, drops=0.01, garbage=0.001, damaged_frames=0.1)
    whole, single = Spoiler(faults, 7), Spoiler(faults, 7)
    assert whole.spoil(MANY) == b"".join(single.spoil(bytes([byte])) for byte in MANY)
    assert whole.damaged_bytes == single.damaged_bytes > 0


@pytest.mark.parametrize("chance", [0.0001, 0.001, 0.1])
def test_as_many_bits_flip_as_the_chance_says(chance: float) -> None:
    flipped = differing_bits(Spoiler(Faults(bit_flips=chance), 3).spoil(MANY), MANY)
    expected = len(MANY) * 8 * chance
    assert abs(flipped - expected) < 5 * expected**0.5


def test_every_bit_may_be_flipped() -> None:
    assert Spoiler(Faults(bit_flips=1), 1).spoil(b"\x00\xff\x0f") == b"\xff\x00\xf0"


def test_as_many_frames_are_damaged_as_the_chance_says_and_their_ends_are_left_alone() -> None:
    frame = b"sixteen or more letters\x00"
    spoiled = Spoiler(Faults(damaged_frames=0.05), 3).spoil(frame * 2000)
    assert len(spoiled) == len(frame) * 2000
    damaged = sum(spoiled[at : at + len(frame)] != frame for at in range(0, len(spoiled), len(frame)))
    assert 60 < damaged < 140


def test_bytes_vanish_and_garbage_comes() -> None:
    assert len(Spoiler(Faults(drops=0.1), 1).spoil(MANY)) < len(MANY) * 0.92
    assert len(Spoiler(Faults(garbage=0.1), 1).spoil(MANY)) > len(MANY) * 1.5


def test_a_chance_beyond_certainty_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Faults(drops=1.5)
