import pytest

from agent.pack.routing import MAX_ROUTES, Router, StreamReaders, StreamRule

NAMES = {"address": "0xab", "device": "bench"}
ALICE, BOB = "0x" + "A" * 40, "0x" + "b" * 40
READER_NAMES = {"address": "0x" + "1" * 40, "device": "attic (north)"}


def test_the_first_rule_that_matches_decides() -> None:
    rules = [StreamRule(stream="{address}/hot", quantity="temp*"), StreamRule(stream="{device}/{driver}/{sensor}")]
    router = Router(rules, NAMES)
    hot, other = router.route("d", "s", "temperature"), router.route("d", "s", "humidity")
    assert hot is not None
    assert other is not None
    assert (hot.stream_id, other.stream_id) == ("0xab/hot", "bench/d/s")


def test_what_no_rule_names_has_no_route() -> None:
    assert Router([StreamRule(stream="x", driver="other")], NAMES).route("d", "s", "q") is None


def test_a_stream_id_that_names_make_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 200 bytes"):
        Router([StreamRule(stream="{sensor}")], NAMES).route("d", "s" * 300, "q")


def test_a_source_that_invents_names_costs_no_memory() -> None:
    router = Router([StreamRule(stream="x")], NAMES)
    for number in range(MAX_ROUTES + 10):
        router.route("d", f"s{number}", "q")
    assert len(router._found) <= MAX_ROUTES


@pytest.mark.parametrize("sensor", ["bell\x07", "two\nlines", "zero\u200bwidth", "\ud800"])
def test_a_name_that_is_no_text_to_be_shown_makes_no_stream_id(sensor: str) -> None:
    """The journal would refuse its chain, when it is too late: any client of a broker can choose such names."""
    with pytest.raises(ValueError, match=r"not printable text|surrogates not allowed"):
        Router([StreamRule(stream="{address}/{sensor}")], NAMES).route("d", sensor, "q")


def readers(*rules: StreamRule) -> StreamReaders:
    return StreamReaders(rules, READER_NAMES, others=["{address}/{device}/events"])


def test_readers_are_those_of_the_rule_whose_template_fits() -> None:
    found = readers(
        StreamRule(stream="{address}/{device}/{driver}", readers=(ALICE, BOB)),
        StreamRule(stream="plant/{sensor}", readers=(BOB,)),
    )

    assert found.of(f"{READER_NAMES['address']}/attic (north)/boiler") == {ALICE.lower(), BOB}
    assert found.of("plant/boiler/top") == {BOB}
    assert found.of(f"{READER_NAMES['address']}/another/boiler") == frozenset()


def test_a_stream_that_another_rule_could_have_made_is_read_by_those_alone_whom_both_name() -> None:
    found = readers(
        StreamRule(stream="{address}/{device}/{driver}", readers=(ALICE, BOB)),
        StreamRule(stream="{address}/{device}/secret", encryption="aes"),
        StreamRule(stream="{address}/{device}/shared", readers=(BOB,)),
    )

    assert found.of(f"{READER_NAMES['address']}/attic (north)/secret") == frozenset()
    assert found.of(f"{READER_NAMES['address']}/attic (north)/shared") == {BOB}


def test_the_events_stream_has_no_readers_by_accident() -> None:
    found = readers(StreamRule(stream="{address}/{device}/{driver}", readers=(BOB,)))

    assert found.of(f"{READER_NAMES['address']}/attic (north)/events") == frozenset()
