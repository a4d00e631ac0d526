"""`headgate top`: its screen as text, and once at a real terminal."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Self

import pytest

from agent.cli import main
from agent.operator.commands.status import Seen
from agent.operator.commands.top import CURVE_POINTS, Curves, Style, compose, cut
from tests.support.patience import PATIENCE_S
from tests.support.statuses import link, sensor, status


def screen(seen: dict[str, Any], *, is_alive: bool = True) -> str:
    return "\n".join(line.text for line in compose(Seen(seen, 2.0, is_alive), Curves()))


def configured(folder: Path) -> Path:
    path = folder / "headgate.toml"
    path.write_text(f'[device]\nname = "bench"\ndata_directory = "{folder}"\n')
    return path


def running(folder: Path) -> None:
    """A status as an agent writes it that is alive now."""
    seen = status(pid=os.getpid(), written_at_ms=time.time_ns() // 1_000_000)
    (folder / "status.json").write_text(json.dumps(seen))


def test_the_screen_names_everything_and_what_is_wrong() -> None:
    text = screen(status(storage_problem="the disk is full"))
    assert "bench  0xAb  running, up for 9 s, last status 2 s ago" in text
    assert "full in 2.0 h" in text
    assert "cannot write the journal: the disk is full" in text
    assert "readings 12 in 3 messages, 0 lost" in text
    assert "LINK, readings   STATE    PENDING    OLDEST  ACKNOWLEDGED  IN MESSAGES" in text
    assert "out              up             0         -            12            3" in text
    assert "node             DOWN           5      62 s             0            0  refused" in text
    assert "temperature                            21.5 Cel" in text
    assert "valve                                        on" in text
    assert "running; device=bench" in text


def test_an_agent_that_is_gone_is_named_in_its_colour() -> None:
    first = compose(Seen(status(), 2.0, is_alive=False), Curves())[0]
    assert first.text.endswith("NOT RUNNING, it ran for 9 s, last status 2 s ago")
    assert first.style is Style.BAD
    assert "STALLED" in screen(status(is_making_progress=False))


def test_nothing_that_comes_from_outside_moves_the_cursor() -> None:
    devices = status()["devices"]
    devices["boiler"]["sensors"] = [sensor("\x1b[2J\nclear", "\x07bell")]
    devices["boiler"]["reason"] = "\x1b]0;title\x07"
    events = [{"at_ms": 1, "level": "ERROR", "text": "a\nb\x1b[31m", "times": 2}]
    links = {"node": link(is_up=False, problem="\x1b[2Jrefused")}
    lines = compose(Seen(status(devices=devices, events=events, links=links), 1.0, is_alive=True), Curves())
    assert all(line.text.isprintable() for line in lines)


def test_curves_grow_with_each_new_status_and_stay_bounded() -> None:
    curves = Curves()
    for at in range(2 * CURVE_POINTS):
        devices = status()["devices"]
        devices["boiler"]["sensors"] = [sensor(value=at % 8)]
        for _ in range(2):  # the same file, read twice
            curves.note(status(devices=devices, written_at_ms=at + 1))
    bars = curves.bars("boiler", "boiler", "temperature")
    assert bars == "▁▂▃▄▅▆▇█" * 3
    assert curves.bars("no", "such", "sensor") == ""


def test_what_does_not_fit_is_cut_off() -> None:
    lines = compose(Seen(status(), 1.0, is_alive=True), Curves())
    shown = cut(lines, 1, 10, 3)
    assert [line.text for line in shown] == [line.text[:10] for line in lines[1:4]]
    assert cut(lines, 999, 10, 3) == []


def test_without_a_terminal_it_prints_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configured(tmp_path)
    assert main(["top", "--config", str(path), "--once"]) == 66
    running(tmp_path)
    assert main(["top", "--config", str(path), "--once"]) == 0
    assert "running, up for" in capsys.readouterr().out


def test_a_status_of_another_version_is_refused_and_not_guessed_at(tmp_path: Path) -> None:
    path = configured(tmp_path)
    old = {"version": 1, "written_at_ms": 1, "pid": 1}
    (tmp_path / "status.json").write_text(json.dumps(old))
    assert main(["top", "--config", str(path), "--once"]) == 78


class Terminal:
    """`headgate top` at a terminal of its own."""

    def __init__(self, config: Path, term: str = "xterm-256color", columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        self.resize(24, columns)
        environment = {**os.environ, "TERM": term, "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "agent", "top", "--config", str(config)]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.shown = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: bytes) -> None:
        poll, deadline_s = select.poll(), time.monotonic() + PATIENCE_S
        poll.register(self._master, select.POLLIN)
        while text not in self.shown:
            if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
                raise AssertionError(f"waited {PATIENCE_S} s for {text!r}: {self.shown!r}")
            try:
                self.shown += os.read(self._master, 4096)
            except OSError:  # the process has ended
                raise AssertionError(f"ended before {text!r}: {self.shown!r}") from None

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def disconnect(self) -> None:
        os.close(self._master)
        self._master = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)


@pytest.mark.slow
@pytest.mark.parametrize("is_signalled", [True, False])
def test_at_a_terminal_it_is_live_follows_the_size_and_ends_by_q(tmp_path: Path, *, is_signalled: bool) -> None:
    with Terminal(configured(tmp_path), columns=40) as terminal:
        terminal.wait_for(b"no status from the agent")
        running(tmp_path)
        terminal.wait_for(b"LAST EVENTS")
        assert b"card lasts" not in terminal.shown  # it is beyond the 40th column
        terminal.resize(24, 100)
        if is_signalled:
            terminal.process.send_signal(signal.SIGWINCH)
        terminal.wait_for(b"card lasts")
        terminal.type(b"jjk q")
        assert terminal.end() == 0


@pytest.mark.slow
def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    running(tmp_path)
    with Terminal(configured(tmp_path)) as terminal:
        terminal.wait_for(b"running, up for")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert b"Traceback" not in terminal.shown


@pytest.mark.slow
def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    running(tmp_path)
    with Terminal(configured(tmp_path)) as terminal:
        terminal.wait_for(b"running, up for")
        terminal.disconnect()
        assert terminal.end() == 0


@pytest.mark.slow
def test_on_an_unsupported_terminal_it_suggests_to_print_once(tmp_path: Path) -> None:
    with Terminal(configured(tmp_path), term="no-such-terminal") as terminal:
        terminal.wait_for(b"use --once")
        assert terminal.end() == 78
