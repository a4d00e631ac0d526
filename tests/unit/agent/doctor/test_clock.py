import pytest

from agent.doctor.clock import EARLIEST_S, ClockFacts, gather_clock, judge_clock
from agent.doctor.finding import Severity

NOW_S = EARLIEST_S + 86_400.0


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (ClockFacts(now_s=0.0, is_synchronised=False), Severity.ERROR, "1970"),
        (ClockFacts(now_s=NOW_S, is_synchronised=None, problem="no"), Severity.WARNING, "does not say"),
        (ClockFacts(now_s=NOW_S, is_synchronised=False), Severity.WARNING, "nobody keeps it right"),
        (ClockFacts(now_s=NOW_S, is_synchronised=True, max_error_ms=5000), Severity.WARNING, "5.0 s"),
        (ClockFacts(now_s=NOW_S, is_synchronised=True, max_error_ms=20), Severity.OK, "within 20 ms"),
    ],
)
def test_the_clock_is_judged(facts: ClockFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_clock(facts)
    assert finding.severity is severity
    assert word in finding.text
    assert bool(finding.advice) == (severity is not Severity.OK)


def test_the_facts_of_this_machine_can_be_gathered() -> None:
    assert gather_clock().now_s > EARLIEST_S


def test_a_kernel_that_does_not_answer_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted", "adjtimex")

    monkeypatch.setattr("agent.doctor.clock.read_kernel_clock", refuse)
    assert gather_clock().is_synchronised is None
