"""The text format of Prometheus, judged by its own parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from runtime.prometheus_text import counter, encode_families, gauge, of_one_label

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_a_family_has_help_type_and_one_line_for_each_sample() -> None:
    links = gauge("link_up", of_one_label("link", {"node": True, "broker": 0.5}), "1 while it is up.")
    assert encode_families([links, counter("sent_total", 3)]) == (
        b"# HELP link_up 1 while it is up.\n# TYPE link_up gauge\n"
        b'link_up{link="node"} 1\nlink_up{link="broker"} 0.5\n'
        b"# TYPE sent_total counter\nsent_total 3\n"
    )


def test_values_that_are_not_known_are_left_out_with_their_family() -> None:
    assert encode_families([gauge("depth", [({}, None)]), gauge("height", [])]) == b""
    assert b"known" in encode_families([gauge("height", of_one_label("of", {"known": 1, "not": None}))])


@given(label=TEXTS, help_text=TEXTS, value=st.floats(allow_nan=False) | st.integers(-(2**53), 2**53))
def test_the_parser_reads_back_any_label_help_and_value(label: str, help_text: str, value: float) -> None:
    text = encode_families([gauge("level", of_one_label("tank", {label: value}), help_text)]).decode()
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (family.type, sample.labels, sample.value) == ("gauge", {"tank": label}, value)


@given(help_text=st.text(st.sampled_from('ab\\"\n'), min_size=1, max_size=10))
def test_a_help_text_stays_in_its_line(help_text: str) -> None:
    lines = encode_families([gauge("level", 1, help_text)]).decode().split("\n")
    assert [line.split(" ")[:2] for line in lines] == [["#", "HELP"], ["#", "TYPE"], ["level", "1"], [""]]


def test_a_lone_surrogate_does_not_prevent_a_scrape() -> None:
    assert encode_families([gauge("level", of_one_label("tank", {"\ud800": 1}))]).endswith(b'{tank="?"} 1\n')


@pytest.mark.parametrize("name", ["", "1st", "with space", "dash-ed", "new\nline"])
def test_a_name_outside_the_format_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a metric"):
        gauge(name, 1)


def test_the_name_of_a_counter_ends_in_total() -> None:
    with pytest.raises(ValueError, match="ends in _total"):
        counter("sent", 1)
