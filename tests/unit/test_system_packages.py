"""The suite's own rule: a test that cannot run for want of a program is named, and in CI it fails."""

import pytest

from tests.support.programs import Need
from tests.support.system_packages import needs_of_all_tests

TESTS = """
    import pytest

    @pytest.mark.needs("no-such-program", "no-such-package")
    def test_that_needs_a_program():
        raise AssertionError("must not run")

    @pytest.mark.needs("sh", "dash")
    def test_that_has_its_program():
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers =\n    needs(command, package): runs a program")
    monkeypatch.setattr("tests.support.programs._apt_install", lambda _packages: None)
    return pytester


def test_a_test_without_its_program_is_named_with_the_package(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    result = suite.runpytest_inprocess("-p", "tests.support.system_packages")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*could not run for want of a system package*"])
    result.stdout.fnmatch_lines(["*test_that_needs_a_program: apt-get install no-such-package"])


def test_in_ci_it_is_a_failure(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    suite.runpytest_inprocess("-p", "tests.support.system_packages").assert_outcomes(passed=1, errors=1)


def test_workers_name_what_they_lack_too(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    result = suite.runpytest_subprocess("-p", "tests.support.system_packages", "-p", "xdist", "-n", "1")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*test_that_needs_a_program: apt-get install no-such-package"])


def test_what_is_installed_before_the_tests_is_what_their_marks_name(request: pytest.FixtureRequest) -> None:
    marks = {Need(*mark.args) for item in request.session.items for mark in item.iter_markers("needs")}
    found = needs_of_all_tests()
    assert found >= marks
    assert Need("mosquitto", "mosquitto") in found
