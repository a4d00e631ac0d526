from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from ingest.account import Account, Boot, ChainName, Suspect
from ingest.small_tables import OPEN, archive_rows, closed_gaps, gap_rows, write_rows
from ingest.spans import Span
from ingest.summary import ArchiveSummary, ChainSummary, Correction, Held
from protocol.losses import Loss
from protocol.reference import Reference

DEVICE = "0xd1"
NAME = ChainName(DEVICE, "boiler")


def span(first: int, last: int) -> Span:
    return Span((first, 0), (last, 0), (first - 1, 0) if first else None, first, last)


def archive(number: int, *spans: Span, rejected: list[int] | None = None, **others: Any) -> ArchiveSummary:
    valid = sum(each.last[0] - each.first[0] + 1 for each in spans)
    held = [Held(number, 0, 1) for number in rejected or []]
    chain = ChainSummary(
        archived=valid + len(held), valid=valid, rejected=len(held), held=held, spans=list(spans), unordered=False
    )
    return ArchiveSummary(
        archive=f"{number:064x}",
        path=f"{number}.hga",
        landed_at_ms=0,
        size_bytes=1,
        device=DEVICE,
        chains={"boiler": chain},
        **others,
    )


def lost(number: int, first: int, last: int, cause: str = "shed") -> tuple[str, Loss]:
    loss = Loss(
        number=number,
        lane=4,
        chain="boiler",
        first_position=first,
        last_position=last,
        count=last - first + 1,
        first=Reference(first, 0),
        last=Reference(last, 0),
        cause=cause,
    )
    return "j", loss


def test_messages_in_quarantine_count_as_their_readings() -> None:
    """Messages 0 and 3 came; 1 and 2 had five readings and two, and are in quarantine, as is 4, of three readings."""
    spans = [Span((0, 0), (0, 0), None, 0, 3), Span((3, 0), (3, 0), (2, 0), 11, 12)]
    held = [Held(1, 0, 5), Held(2, 0, 2), Held(4, 0, 3)]
    summary = archive(1, *spans)
    summary.chains["boiler"] = ChainSummary(archived=16, valid=6, rejected=10, held=held, spans=spans)
    account = Account()
    account.add([summary], {})
    (gap,) = account.gaps()
    assert (gap.hole.missing, gap.held) == (7, 7)
    (row,) = Account.from_json(account.to_json()).ledger()
    counted = {name: row[name] for name in ("produced", "archived", "ingested", "quarantined", "held")}
    assert counted == {"produced": 16, "archived": 16, "ingested": 6, "quarantined": 10, "held": 10}
    assert row["balanced"]


def test_a_whole_chain_balances() -> None:
    account = Account()
    account.add([archive(1, span(0, 9))], {})
    (row,) = account.ledger()
    assert (row["produced"], row["archived"], row["ingested"], row["balanced"]) == (10, 10, 10, True)
    assert account.gaps() == []


def test_a_loss_reported_twice_is_counted_once_and_explains_the_hole() -> None:
    account = Account()
    account.add([archive(1, span(0, 2), losses=[lost(1, 3, 5)])], {})
    account.add([archive(2, span(6, 9), losses=[lost(1, 3, 5)])], {})
    (gap,) = account.gaps()
    assert (gap.hole.missing, gap.explained, gap.cause) == (3, 3, "shed")
    (row,) = account.ledger()
    assert (row["lost_explained"], row["lost_unexplained"], row["balanced"]) == (3, 0, True)


def test_a_loss_that_was_partly_archived_before_explains_what_is_missing_and_no_more() -> None:
    account = Account()
    account.add([archive(1, span(0, 4), span(7, 9), losses=[lost(1, 2, 6), lost(2, 7, 9)])], {})
    (gap,) = account.gaps()
    assert (gap.hole.missing, gap.explained, gap.cause) == (2, 2, "shed")
    (row,) = account.ledger()
    assert (row["lost_explained"], row["lost_unexplained"], row["balanced"]) == (2, 0, True)


def test_one_loss_does_not_explain_more_than_it_counts() -> None:
    account = Account()
    journal, whole = lost(1, 1, 8)
    reported = (journal, replace(whole, count=3))
    account.add([archive(1, span(0, 0), span(3, 3), span(9, 9), losses=[reported])], {})
    assert [(gap.hole.missing, gap.explained) for gap in account.gaps()] == [(2, 2), (5, 1)]
    (row,) = account.ledger()
    assert (row["lost_explained"], row["lost_unexplained"], row["balanced"]) == (3, 4, True)


def placed(first: int, last: int, shift: int = 0) -> Span:
    """Of a chain whose messages stood at their own numbers in the journal, or `shift` later."""
    return span(first, last)._replace(first_place=first + shift, last_place=last + shift)


def chainless(first: int, last: int, count: int, lane: int = 4) -> tuple[str, Loss]:
    loss = Loss(
        number=1,
        lane=lane,
        chain="",
        first_position=first,
        last_position=last,
        count=count,
        first=None,
        last=None,
        cause="damaged",
    )
    return "j", loss


def two_chains(reported: tuple[str, Loss]) -> list[dict[str, Any]]:
    """Both have a hole from 3 to 5; those of the second stood at 103 to 105."""
    summary = archive(1, placed(0, 2), placed(6, 9), journal="j", losses=[reported])
    other = archive(1, placed(0, 2, 100), placed(6, 9, 100))
    summary.chains["door"] = other.chains["boiler"]
    for chain in summary.chains.values():
        chain.lane = 4
    account = Account()
    account.add([summary], {})
    assert Account.from_json(account.to_json()).ledger() == account.ledger()
    return account.ledger()


def test_a_loss_of_unknown_chain_explains_what_is_missing_where_it_stood() -> None:
    assert [(row["lost_explained"], row["lost_unexplained"]) for row in two_chains(chainless(2, 7, 3))] == [
        (3, 0),
        (0, 3),
    ]


def test_a_loss_of_unknown_chain_explains_no_more_than_it_counts() -> None:
    assert [(row["lost_explained"], row["lost_unexplained"]) for row in two_chains(chainless(0, 200, 4))] == [
        (3, 0),
        (1, 2),
    ]


def test_a_loss_of_another_lane_explains_nothing() -> None:
    assert [row["lost_unexplained"] for row in two_chains(chainless(0, 200, 99, lane=5))] == [3, 3]


def test_a_loss_reported_by_a_message_and_by_a_manifest_is_known_once() -> None:
    account = Account()
    account.add([archive(1, span(0, 2), losses=[lost(1, 3, 5), lost(1, 3, 5)])], {})
    assert list(account.losses.items()) == [((DEVICE, "j", 1), lost(1, 3, 5)[1])]


def test_what_is_in_quarantine_is_held_and_not_lost() -> None:
    account = Account()
    account.add([archive(1, span(0, 2), span(5, 6), rejected=[3, 4, 7])], {})
    (row,) = account.ledger()
    assert (row["produced"], row["ingested"], row["held"], row["quarantined"]) == (8, 5, 3, 3)
    assert (row["lost_unexplained"], row["balanced"]) == (0, True)


def test_a_message_that_comes_whole_after_all_is_held_no_longer() -> None:
    account = Account()
    account.add([archive(1, span(0, 2), span(4, 6), rejected=[3])], {})
    account.add([archive(2, span(3, 3))], {})
    (row,) = account.ledger()
    assert (row["held"], row["ingested"], row["quarantined"], row["balanced"]) == (0, 7, 1, True)


def test_a_manifest_that_counts_what_is_not_there_does_not_balance() -> None:
    lying = archive(1, span(0, 9))
    lying.chains["boiler"].archived += 1
    account = Account()
    account.add([lying], {})
    assert [row["balanced"] for row in account.ledger()] == [False]


def test_the_account_does_not_depend_on_the_order_of_archives() -> None:
    archives = [
        archive(1, span(0, 2)),
        archive(2, span(3, 5), rejected=[6], losses=[lost(1, 7, 8)]),
        archive(3, span(9, 12)),
        archive(4, span(15, 20)),
    ]
    ledgers, gaps = [], []
    for order in permutations(archives):
        account = Account()
        for each in order:
            account.add([each], {})
        ledgers.append(account.ledger())
        gaps.append(account.gaps())
    assert all(ledger == ledgers[0] for ledger in ledgers)
    assert all(found == gaps[0] for found in gaps)
    assert [gap.hole.missing for gap in gaps[0]] == [3, 2]


def test_only_what_overlaps_is_suspected() -> None:
    account = Account()
    account.add([archive(1, span(0, 9))], {})
    assert account.suspects([archive(2, span(10, 19))]) == []
    assert account.suspects([archive(2, span(8, 19))]) == [Suspect(*NAME, 8, 19)]
    assert account.suspects([archive(2, span(10, 19)), archive(3, span(15, 30))]) == [Suspect(*NAME, 15, 30)]
    repeating = archive(2, span(10, 19))
    repeating.chains["boiler"].unordered = True
    assert account.suspects([repeating]) == [Suspect(*NAME, 10, 19)]


def test_of_two_corrections_of_one_boot_the_one_made_last_counts() -> None:
    early, late = Correction("b0", 10, 1000), Correction("b0", 20, 2000)
    for order in ([early, late], [late, early]):
        account = Account()
        for correction in order:
            account.learn([archive(1, corrections=[correction])])
        assert account.corrections == {Boot(DEVICE, "b0"): late}
    assert account.learn([archive(2, corrections=[early])]) == set()


def test_the_account_survives_its_json() -> None:
    account = Account()
    account.learn([archive(1, corrections=[Correction("b0", 10, 1000)])])
    account.boot_dates[Boot(DEVICE, "b0")] = {"2026-01-01"}
    account.add([archive(1, span(0, 2), span(5, 6), rejected=[3], losses=[lost(1, 4, 4)])], {NAME: 1})
    assert Account.from_json(account.to_json()) == account


def test_a_summary_survives_its_json() -> None:
    summary = archive(1, span(3, 4), rejected=[9], losses=[lost(1, 4, 4)], corrections=[Correction("b0", 10, 1000)])
    assert ArchiveSummary.from_json(summary.to_json()) == summary


def test_no_number_that_a_device_says_is_too_large_for_the_tables(tmp_path: Path) -> None:
    account = Account()
    uncounted = Span((9, 0), (9, 0), (8, 0))
    losses = [("j", replace(lost(number, 1, 8)[1], count=2**63 - 1)) for number in range(2)]
    account.add([archive(1, uncounted, losses=losses, created_at_ms=2**53 - 1)], {})
    write_rows("gaps", gap_rows(account.gaps(), OPEN), tmp_path / "gaps")
    write_rows("ledger", account.ledger(), tmp_path / "ledger")
    write_rows("archives", archive_rows([archive(1, uncounted, created_at_ms=2**53 - 1)]), tmp_path / "archives")
    assert Account.from_json(account.to_json()) == account


class Counting(Reference):
    """A reference that counts how often it is compared."""

    compared = 0
    __hash__ = tuple.__hash__

    def __lt__(self, other: tuple[int, ...]) -> bool:
        Counting.compared += 1
        return tuple.__lt__(self, other)

    def __gt__(self, other: tuple[int, ...]) -> bool:
        Counting.compared += 1
        return tuple.__gt__(self, other)


def test_the_cost_of_a_chain_follows_its_holes_and_not_their_square() -> None:
    """A sensor of which every third message is in quarantine, and every third lost, as the device says."""
    thirds = 600

    def refs(number: int) -> list[Counting]:
        return [Counting(3 * third + number, 0) for third in range(thirds)]

    spans = [Span(ref, ref, Counting(ref[0] - 1, 0) if ref[0] else None, ref[0], ref[0]) for ref in refs(0)]
    losses = [
        ("j", replace(lost(number, ref[0], ref[0])[1], first=ref, last=ref)) for number, ref in enumerate(refs(1))
    ]
    account = Account()
    account.add([archive(1, *spans, losses=losses)], {})
    account.chains[NAME].held = dict.fromkeys(refs(2), 1)
    Counting.compared = 0
    gaps = account.gaps()
    assert closed_gaps(gaps[::2], gaps[1::2]) == gaps[::2]
    assert closed_gaps(gaps, gaps) == []
    assert {(gap.hole.missing, gap.explained, gap.held) for gap in gaps} == {(2, 1, 1)}
    assert Counting.compared < 100 * thirds
