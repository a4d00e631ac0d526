from typing import Any

import pytest

from ingest.decoded import ChainLink, Decoded
from ingest.reasons import Quarantined
from ingest.spans import holes_between
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


def take(walk: Walk, number: int, place: int, event: GapNotice | None = None, **others: Any) -> str | Quarantined:
    """Message `number` of a chain without a hole, which stood at `place` in the journal."""
    decoded = Decoded(
        ("stream", 0, "chain"),
        (number, 0),
        (number, 0),
        (number - 1, 0),
        ChainLink(number, number, f"{number}", f"{number - 1}"),
        1,
        events=() if event is None else (event,),
    )
    return walk.take(Record(b"", "boiler", number, 0, LANE, place, 0), decoded._replace(**others))


def test_a_span_knows_where_its_ends_stood_in_the_journal() -> None:
    found = summary()
    walk = Walk(found)
    for number, place in ((1, 10), (2, 12), (3, 17), (6, 30), (7, 31)):
        take(walk, number, place)
    walk.finish()
    chain = found.chains["boiler"]
    assert chain.lane == LANE
    assert [(span.first_place, span.last_place) for span in chain.spans] == [(10, 17), (30, 31)]


def test_a_pack_counts_as_its_readings_in_messages_positions_and_places() -> None:
    found = summary()
    walk = Walk(found)
    links = [
        take(walk, 1, 10, link=ChainLink(0, 3, "3", None), readings=4),
        take(walk, 2, 14, link=ChainLink(4, 4, "4", "3")),
        take(walk, 3, 20, link=ChainLink(5, 9, "9", "another"), readings=5),
        take(walk, 5, 30, link=ChainLink(14, 15, "15", "13"), readings=2),
    ]
    walk.reject(Record(b"", "boiler", 6, 0, LANE, 40, 0, 7))
    walk.finish()
    assert links == ["first", "linked", "forked", "first"]
    chain = found.chains["boiler"]
    assert (chain.valid, chain.rejected, chain.held, chain.forked) == (12, 7, [(6, 0, 7)], 1)
    assert [(span.first_position, span.last_position) for span in chain.spans] == [(0, 9), (14, 15)]
    assert [(span.first_place, span.last_place) for span in chain.spans] == [(10, 24), (30, 31)]
    (hole,) = holes_between(chain.spans[1:])
    assert hole.missing == 14
    (_, hole) = holes_between(chain.spans)
    assert (hole.after, hole.last, hole.before, hole.missing, hole.places) == ((3, 0), (4, 0), (5, 0), 4, (24, 30))


def test_a_message_of_another_stream_is_refused() -> None:
    walk = Walk(summary())
    take(walk, 1, 1)
    assert isinstance(take(walk, 2, 2, identity=("another", 0, "chain")), Quarantined)


@pytest.mark.parametrize("archived", [False, True])
def test_a_message_about_a_loss_counts_unless_archives_have_what_was_lost(*, archived: bool) -> None:
    found = summary()
    take(Walk(found), 1, 1, GapNotice(journal=bytes(16), loss=LOSS, archived=archived))
    assert found.losses == ([] if archived else [("00" * 16, LOSS)])
