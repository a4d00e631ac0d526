from dataclasses import replace

from agent.journal.losses import MAX_PENDING_LOSSES, LossLedger, PendingLoss
from agent.journal.records import Record, damage, loss_of
from protocol.losses import Cause, Loss


def _loss(position: int, chain: str = "a", lane: int = 0) -> Loss:
    return loss_of(Record(position, lane, b"", chain, 1000 + position, 0, 0), Cause.SHED)


def _reported(ledger: LossLedger) -> tuple[PendingLoss, ...]:
    ledger.report_more()
    return ledger.reported()


def test_a_loss_stays_until_it_is_acknowledged() -> None:
    ledger = LossLedger(7)
    ledger.record([_loss(1), _loss(2, "b")], ("publisher",))
    first, second = _reported(ledger)
    ledger.acknowledge(first.number)
    assert _reported(ledger) == (second,)


def test_numbers_are_never_used_again() -> None:
    ledger, other = LossLedger(7), LossLedger(8)
    numbers = set()
    for each in (ledger, other):
        for _ in range(2):
            each.record([_loss(1)], ())
            [pending] = each.pending()
            numbers.add(pending.number)
            each.acknowledge(pending.number)
    assert len(numbers) == 4


def test_a_journal_that_was_restored_uses_no_number_of_one_loss_for_another() -> None:
    ledger, restored = LossLedger(7, next_count=5), LossLedger(7, next_count=5)
    ledger.record([_loss(1)], ())
    restored.record([_loss(2)], ())
    assert ledger.pending()[0].number != restored.pending()[0].number


def test_too_many_losses_are_joined_without_losing_count() -> None:
    ledger = LossLedger(7)
    for position in range(3 * MAX_PENDING_LOSSES):
        ledger.record([_loss(position, f"chain {position % 5}")], ("publisher",))
    assert len(ledger.pending()) <= MAX_PENDING_LOSSES
    assert sum(each.loss.count for each in ledger.pending()) == 3 * MAX_PENDING_LOSSES


def test_too_many_chains_are_joined_across_chains() -> None:
    ledger = LossLedger(7)
    ledger.record([_loss(position, f"chain {position}") for position in range(500)], ())
    [each] = ledger.pending()
    assert (each.loss.chain, each.loss.count, each.loss.last_position) == ("", 500, 499)


def test_a_loss_that_was_reported_is_never_joined_with_others() -> None:
    ledger = LossLedger(7)
    ledger.record([_loss(0)], ())
    [reported] = _reported(ledger)
    ledger.record([_loss(position) for position in range(1, 200)], ())
    again = LossLedger(7, ledger.pending(), [each.number for each in ledger.reported()], ledger.next_count)
    again.record([_loss(position) for position in range(200, 400)], ())
    assert reported in again.pending()


def test_what_is_reported_under_distinct_numbers_adds_up_while_nothing_is_acknowledged() -> None:
    ledger, seen = LossLedger(7), dict[int, int]()
    for position in range(5 * MAX_PENDING_LOSSES):
        ledger.record([_loss(position, f"chain {position}")], ("publisher",))
        seen.update({each.number: each.loss.count for each in _reported(ledger)})
        assert len(ledger.pending()) <= MAX_PENDING_LOSSES
    while pending := _reported(ledger):
        seen.update({each.number: each.loss.count for each in pending})
        ledger.acknowledge(pending[0].number)
    assert sum(seen.values()) == 5 * MAX_PENDING_LOSSES


def test_losses_survive_json() -> None:
    known = PendingLoss(loss=replace(_loss(3, "ä"), number=4), missed_by=("archiver",), copied_by=("archiver",))
    unknown = PendingLoss(loss=replace(damage(1, 2, 9), number=5), missed_by=())
    assert [PendingLoss.from_json(each.to_json()) for each in (known, unknown)] == [known, unknown]
