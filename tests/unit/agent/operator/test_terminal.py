import io

import pytest

from agent.operator.terminal import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_it_is_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.operator.terminal.SHOW_EVERY_S", 0)
    terminal = Terminal()
    with Progress("work", 200, terminal) as progress:
        progress.reach(50)
        progress.reach(200)
    assert terminal.getvalue() == "\rwork: 25 %\rwork: 100 %\r" + " " * len("work: 100 %") + "\r"


def test_short_work_and_anything_but_a_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    with Progress("work", 100, terminal) as progress:
        progress.reach(50)
    assert terminal.getvalue() == ""
    monkeypatch.setattr("agent.operator.terminal.SHOW_EVERY_S", 0)
    pipe = io.StringIO()
    with Progress("work", 0, pipe) as progress:
        progress.reach(0)
    assert pipe.getvalue() == ""
