from agent.journal.records import LossTally, Record, damage, joined, loss_of
from protocol.losses import Cause
from protocol.reference import Reference


def _record(position: int, chain: str = "a") -> Record:
    return Record(position, 1, b"", chain, 1000 + position, position, 0)


def test_losses_add_up_by_chain() -> None:
    tally = LossTally(Cause.SHED)
    tally.add_records([_record(4), _record(5, "b"), _record(6)])
    tally.add_records([_record(9)])
    first, second = tally.losses()
    assert (first.chain, first.first_position, first.last_position, first.count) == ("a", 4, 9, 3)
    assert (first.first, first.last) == (Reference(1004, 4), Reference(1009, 9))
    assert (second.chain, second.count) == ("b", 1)


def test_joined_losses_of_different_chains_have_no_chain() -> None:
    both = joined(loss_of(_record(7, "b"), Cause.SHED), loss_of(_record(2, "a"), Cause.SHED))
    assert (both.chain, both.first, both.last) == ("", None, None)
    assert (both.first_position, both.last_position, both.count) == (2, 7, 2)


def test_a_loss_within_another_does_not_cut_it_short() -> None:
    """As when a stretch that was thinned is thinned again before anybody was reported."""
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
