from agent.journal.records import LossTally, Record, damage, joined, loss_of, not_below
from protocol.losses import Cause
from protocol.reference import Reference


def _record(position: int, chain: str = "a", readings: int = 1) -> Record:
    return Record(position, 1, b"", chain, 1000 + position, position, 0, readings)


def test_losses_add_up_by_chain() -> None:
    tally = LossTally(Cause.SHED)
    tally.add_records([_record(4), _record(5, "b"), _record(6)])
    tally.add_records([_record(9)])
    first, second = tally.losses()
    assert (first.chain, first.first_position, first.last_position, first.count) == ("a", 4, 9, 3)
    assert (first.first, first.last) == (Reference(1004, 4), Reference(1009, 9))
    assert (second.chain, second.count) == ("b", 1)


def test_losses_count_readings() -> None:
    tally = LossTally(Cause.SHED, copied_below=8)
    tally.add_records([_record(0, readings=3), _record(5, readings=2), _record(7, readings=4), _record(11)])
    copied, others = tally.losses()
    assert (copied.first_position, copied.last_position, copied.count) == (0, 6, 5)
    assert (others.first_position, others.last_position, others.count) == (7, 11, 5), "one is copied only in part"
    [alone] = [loss_of(_record(7, readings=4), Cause.SHED)]
    assert (alone.first_position, alone.last_position, alone.count) == (7, 10, 4)


def test_a_record_and_its_entry_carry_the_readings() -> None:
    record = _record(5, readings=7)
    assert (record.next_position, record.entry.readings) == (12, 7)


def test_a_loss_is_less_to_a_reader_that_had_a_part_of_it() -> None:
    everything = damage(0, 10, 20)
    assert [not_below(everything, position) for position in (10, 20)] == [everything, None]
    assert not_below(everything, 17) == damage(0, 17, 20)
    assert not_below(damage(0, 10, 20, count=2), 17) == damage(0, 17, 20, count=2)
    record = loss_of(_record(10, readings=10), Cause.SHED)
    assert [not_below(record, position) for position in (17, 20)] == [record, None], "it comes as a whole or not at all"


def test_joined_losses_of_different_chains_have_no_chain() -> None:
    both = joined(loss_of(_record(7, "b"), Cause.SHED), loss_of(_record(2, "a"), Cause.SHED))
    assert (both.chain, both.first, both.last) == ("", None, None)
    assert (both.first_position, both.last_position, both.count) == (2, 7, 2)


def test_a_loss_within_another_does_not_cut_it_short() -> None:
    """As when a stretch that was thinned is thinned again before it was reported."""
    outer, inner = LossTally(Cause.SHED), LossTally(Cause.SHED)
    outer.add_records([_record(1), _record(9)])
    inner.add_records([_record(3), _record(7)])
    [wide], [narrow] = outer.losses(), inner.losses()
    for both in (joined(wide, narrow), joined(narrow, wide)):
        assert (both.first_position, both.last_position, both.count) == (1, 9, 4)
        assert (both.first, both.last) == (Reference(1001, 1), Reference(1009, 9))


def test_damage_counts_every_position() -> None:
    assert damage(0, 5, 8).count == 3


def test_a_record_whose_chain_or_time_cannot_be_is_lost_without_them() -> None:
    """The bytes of a damaged block may say anything."""
    for impossible in (_record(3)._replace(timestamp_ms=2**64 - 1), _record(3, "")):
        loss = loss_of(impossible, Cause.DAMAGED)
        assert (loss.first_position, loss.count, loss.chain, loss.first) == (3, 1, "", None)
