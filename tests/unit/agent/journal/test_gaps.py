from agent.journal.gaps import MAX_PENDING_GAPS, Cause, Gap, GapLedger
from agent.journal.records import Loss, Record, loss_of, unknown_loss


def _loss(position: int, chain: str = "a", lane: int = 0) -> Loss:
    return loss_of(Record(position, lane, b"", chain, 1000 + position, 0, 0))


def test_a_gap_stays_until_it_is_acknowledged() -> None:
    ledger = GapLedger()
    ledger.record([_loss(1), _loss(2, "b")], Cause.SHED, ("publisher",))
    first, second = ledger.take()
    ledger.acknowledge(first.number)
    assert ledger.take() == (second,)


def test_numbers_are_never_used_again() -> None:
    ledger = GapLedger()
    ledger.record([_loss(1)], Cause.SHED, ())
    ledger.acknowledge(1)
    ledger.record([_loss(2)], Cause.SHED, ())
    assert [gap.number for gap in ledger.pending()] == [2]


def test_too_many_gaps_are_joined_without_losing_count() -> None:
    ledger = GapLedger()
    for position in range(3 * MAX_PENDING_GAPS):
        ledger.record([_loss(position, f"chain {position % 5}")], Cause.SHED, ("publisher",))
    assert len(ledger.pending()) <= MAX_PENDING_GAPS
    assert sum(gap.loss.count for gap in ledger.pending()) == 3 * MAX_PENDING_GAPS


def test_too_many_chains_are_joined_across_chains() -> None:
    ledger = GapLedger()
    ledger.record([_loss(position, f"chain {position}") for position in range(500)], Cause.THINNED, ())
    [gap] = ledger.pending()
    assert (gap.loss.chain, gap.loss.count, gap.loss.last_position) == ("", 500, 499)


def test_a_gap_that_was_taken_is_not_joined_with_others() -> None:
    ledger = GapLedger()
    ledger.record([_loss(0)], Cause.SHED, ())
    [taken] = ledger.take()
    ledger.record([_loss(position) for position in range(1, 200)], Cause.SHED, ())
    assert taken in ledger.pending()


def test_gaps_that_were_taken_are_joined_when_there_is_no_other_way() -> None:
    ledger = GapLedger()
    for position in range(3 * MAX_PENDING_GAPS):
        ledger.record([_loss(position, f"chain {position}")], Cause.SHED, ("publisher",))
        ledger.take()
        assert len(ledger.pending()) <= MAX_PENDING_GAPS
    assert sum(gap.loss.count for gap in ledger.pending()) == 3 * MAX_PENDING_GAPS
    assert len({gap.number for gap in ledger.pending()}) == len(ledger.pending())


def test_gaps_survive_json() -> None:
    known = Gap(number=4, loss=_loss(3, "ä"), cause=Cause.NO_ROOM, missed_by=("archiver",), kept_by=("archiver",))
    unknown = Gap(number=5, loss=unknown_loss(1, 2, 9), cause=Cause.DAMAGED, missed_by=())
    assert [Gap.from_json(gap.to_json()) for gap in (known, unknown)] == [known, unknown]
