import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.harness import Figure, NotTaken, Result
from benchmarks.results import as_json, from_json, margin, write_results

HELD = Figure(name="sign <fast>", value=0.8, unit="×", at_least=0.75)
MISSED = Figure(name="start", value=0.6, unit="s", at_most=0.3, note="slow")
FREE = Figure(name="CPU", value=12, unit="µs")


def test_a_run_leaves_a_table_json_and_a_plot(tmp_path: Path) -> None:
    write_results([HELD, MISSED, FREE], tmp_path / "out")
    table = (tmp_path / "out" / "figures.md").read_text()
    assert "| start | 0.6 s | <= 0.3 | NO | slow |" in table
    reported = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert [figure["holds"] for figure in reported["figures"]] == [True, False, True]
    assert reported["machine"]["python"]
    plot = ET.parse(tmp_path / "out" / "limits.svg").getroot()
    texts = [element.text for element in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert "sign <fast>" in texts
    assert "CPU" not in texts, "what has no limit is not drawn"


def test_a_figure_comes_back_from_json() -> None:
    results: list[Result] = [HELD, MISSED, FREE, NotTaken(name="size", reason="no compiler")]
    assert [from_json(values) for values in as_json(results)] == results


@pytest.mark.parametrize(
    ("figure", "times"),
    [
        (HELD, 0.8 / 0.75),
        (MISSED, 0.5),
        (Figure(name="lost", value=0, unit="", at_most=0), 1.0),
        (Figure(name="lost", value=7, unit="", at_most=0), 0.1),
        (Figure(name="lost", value=0, unit="", at_most=5), 10.0),
        (Figure(name="rate", value=0, unit="", at_least=5), 0.1),
        (Figure(name="rate", value=1e9, unit="", at_least=5), 10.0),
    ],
)
def test_the_margin_is_how_many_times_better_than_the_limit(figure: Figure, times: float) -> None:
    assert margin(figure) == pytest.approx(times)
