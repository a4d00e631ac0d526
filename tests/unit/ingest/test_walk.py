from typing import Any

import pytest

from ingest.decoded import ChainLink, Decoded
from ingest.summary import ArchiveSummary, ChainSummary
from ingest.walk import Walk
from protocol.archive.records import Record
from protocol.events import GapNotice
from tests.support.archives import LOSS

LANE = 4


def summary() -> ArchiveSummary:
    return ArchiveSummary(
        archive="a", path="a.hga", landed_at_ms=0, size_bytes=1, chains={"boiler": ChainSummary(archived=9)}
    )


def take(walk: Walk, number: int, place: int, event: GapNotice | None = None) -> None:
    """Message `number` of a chain without a hole, which stood at `place` in the journal."""
    row: tuple[Any, ...] = ()
    link = ChainLink("boiler", number, f"{number}", f"{number - 1}")
    decoded = Decoded(("stream", 0, "chain"), (number, 0), (number - 1, 0), link, row, event)
    assert isinstance(walk.take(Record(b"", "boiler", number, 0, LANE, place, 0), decoded), str)


def test_a_span_knows_where_its_ends_stood_in_the_journal() -> None:
    found = summary()
    walk = Walk(found)
    for number, place in ((1, 10), (2, 12), (3, 17), (6, 30), (7, 31)):
        take(walk, number, place)
    walk.finish()
    chain = found.chains["boiler"]
    assert chain.lane == LANE
    assert [(span.first_place, span.last_place) for span in chain.spans] == [(10, 17), (30, 31)]


@pytest.mark.parametrize("archived", [False, True])
def test_a_message_about_a_loss_counts_unless_archives_have_what_was_lost(*, archived: bool) -> None:
    found = summary()
    take(Walk(found), 1, 1, GapNotice(journal=bytes(16), loss=LOSS, archived=archived))
    assert found.losses == ([] if archived else [("00" * 16, LOSS)])
