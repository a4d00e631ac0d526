"""The suite's own schedule: what cannot share a machine is run by one worker, and the longest groups begin first."""

from collections import defaultdict

import pytest

from tests.support.scheduling import GROUPS, LONGEST, group_of, in_order

TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(5))
def test_that_notes_its_worker(number):
    pathlib.Path(os.environ["NOTES"], f"{__name__} {os.environ['PYTEST_XDIST_WORKER']}").touch()
"""


def test_every_test_with_a_spark_session_is_in_a_group_of_its_own_kind(request: pytest.FixtureRequest) -> None:
    groups = {group_of(item.nodeid) for item in request.session.items if "spark" in getattr(item, "fixturenames", ())}
    assert groups <= {"spark", "scenarios"}


def test_every_path_in_the_table_of_groups_exists(request: pytest.FixtureRequest) -> None:
    assert [part for part in GROUPS if not list(request.config.rootpath.glob(f"{part}*"))] == []
    assert set(LONGEST) <= set(GROUPS.values())


def test_groups_are_contiguous_and_the_longest_begin_first(request: pytest.FixtureRequest) -> None:
    places = defaultdict(list)
    for place, item in enumerate(in_order(reversed(request.session.items))):
        places[group_of(item.nodeid)].append(place)
    present = [group for group in LONGEST if group in places]
    assert sorted(present, key=lambda group: places[group][0]) == present


def test_one_worker_runs_all_tests_of_a_file(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = pytester.mkdir("notes")
    monkeypatch.setenv("NOTES", str(notes))
    pytester.makepyfile(test_one=TESTS, test_two=TESTS)
    options = ("-n", "2", "-p", "tests.support.scheduling")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=10)
    assert sorted(path.name.split()[0] for path in notes.iterdir()) == ["test_one", "test_two"]
