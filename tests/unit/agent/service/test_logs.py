import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config.configuration import LogConfig
from agent.service.logs import (
    BURST,
    MAX_EVENT_CHARACTERS,
    MAX_EVENTS,
    MAX_LINE_CHARACTERS,
    PACE_S,
    ROUTINE,
    LineFormatter,
    RecentEvents,
    RepetitionLimit,
    set_up_logs,
)


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before, level


def _logged(config: LogConfig, *messages: str) -> list[str]:
    stream = io.StringIO()
    set_up_logs(config, stream, {})
    for message in messages:
        logging.getLogger("agent.test").warning(message)
    return stream.getvalue().splitlines()


def _logged_for_journald(folder: Path, config: LogConfig, message: str, *, is_its_stream: bool = True) -> str:
    with (folder / "stream").open("w+", encoding="utf-8") as stream:
        file = os.fstat(stream.fileno())
        name = f"{file.st_dev}:{file.st_ino if is_its_stream else 1}"
        set_up_logs(config, stream, {"JOURNAL_STREAM": name})
        logging.getLogger("agent.test").warning(message)
        stream.seek(0)
        return stream.read()


def test_journald_gets_priorities_and_no_second_time(tmp_path: Path) -> None:
    assert _logged_for_journald(tmp_path, LogConfig(), "link down; url=x") == "<4>WARNING link down; url=x\n"


def test_a_stream_that_does_not_lead_to_journald_gets_no_priorities(tmp_path: Path) -> None:
    assert not _logged_for_journald(tmp_path, LogConfig(), "hello", is_its_stream=False).startswith("<")


def test_json_has_its_priority_too(tmp_path: Path) -> None:
    line = _logged_for_journald(tmp_path, LogConfig(format="json"), "hello")
    assert json.loads(line.removeprefix("<4>"))["level"] == "WARNING"


def test_one_event_is_one_line_of_bounded_length() -> None:
    (line,) = _logged(LogConfig(), "a\nb" + "x" * 10_000)
    assert "a\\nb" in line
    assert len(line) <= MAX_LINE_CHARACTERS


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_device_sends_cannot_forge_a_line(form: str) -> None:
    lines = _logged(LogConfig(format=form), "device says\r<0>EMERGENCY\x1b[2J\u2028gone")  # type: ignore[arg-type]
    assert len(lines) == 1
    assert not set("\r\x1b\u2028") & set(lines[0])


def test_a_traceback_stays_in_its_line_and_within_its_bound() -> None:
    stream = io.StringIO()
    set_up_logs(LogConfig(format="json"), stream, {})
    try:
        int("x" * 10_000)
    except ValueError:
        logging.getLogger("agent.test").exception("it broke")
    (line,) = stream.getvalue().splitlines()
    assert len(json.loads(line)["traceback"]) <= MAX_LINE_CHARACTERS


def test_json_on_request() -> None:
    (line,) = _logged(LogConfig(format="json"), "hello")
    assert json.loads(line)["message"] == "hello"


def test_what_is_below_the_level_is_not_written() -> None:
    assert _logged(LogConfig(level="error"), "hello") == []


def test_who_repeats_himself_is_cut_short_and_the_rest_is_counted() -> None:
    assert len(_logged(LogConfig(), *["again"] * 10_000)) == BURST


def test_who_asks_for_everything_gets_everything() -> None:
    assert len(_logged(LogConfig(level="debug"), *["again"] * 1000)) == 1000


def _record(line: int) -> logging.LogRecord:
    return logging.LogRecord("agent.test", logging.WARNING, "place.py", line, "again", None, None)


def test_after_a_while_one_more_line_is_let_through_and_tells_what_was_left_out() -> None:
    now_s = 0.0
    limit = RepetitionLimit(lambda: now_s)
    assert sum(limit.filter(_record(1)) for _ in range(BURST + 7)) == BURST
    now_s = PACE_S
    record = _record(1)
    assert limit.filter(record)
    assert LineFormatter(is_journal=False).format(record).endswith("left_out=7")
    assert not limit.filter(_record(1))


def test_one_loud_place_does_not_silence_another() -> None:
    limit = RepetitionLimit(lambda: 0.0)
    for _ in range(1000):
        limit.filter(_record(1))
    assert limit.filter(_record(2))


def test_a_day_of_the_loudest_place_is_a_bounded_number_of_lines() -> None:
    now_s = 0.0
    limit = RepetitionLimit(lambda: now_s)
    said = 0
    for second in range(86_400):
        now_s = float(second)
        said += limit.filter(_record(1))
    assert said <= BURST + 86_400 / PACE_S


def _event(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("agent.test", level, "", 0, message, None, None)


def test_the_last_events_are_kept_bounded_in_number_and_length() -> None:
    recent = RecentEvents()
    for number in range(MAX_EVENTS + 5):
        recent.handle(_event(f"event {number}" + "x" * 10_000))
    events = recent.events()
    assert len(events) == MAX_EVENTS
    assert events[0].text.startswith("event 5x")
    assert {len(event.text) for event in events} == {MAX_EVENT_CHARACTERS}


def test_routine_does_not_push_out_what_matters() -> None:
    recent = RecentEvents()
    recent.handle(_event("link down, buffering; publisher=a", logging.WARNING))
    recent.handle(_event("link down, buffering; publisher=b", logging.WARNING))
    for number in range(3):
        recent.handle(_event(f"archived; file={number}"))
    assert [(event.text, event.times) for event in recent.events()] == [
        ("link down, buffering; publisher=a", 1),
        ("link down, buffering; publisher=b", 1),
        ("archived; file=2", 3),
    ]


def test_two_kinds_of_routine_that_take_turns_are_two_events() -> None:
    recent = RecentEvents()
    recent.handle(_event("link up; publisher=a"))
    for number in range(3):
        recent.handle(_event(f"archived; file={number}"))
        recent.handle(_event(f"shipped; file={number}"))
    recent.handle(_event("link down, buffering; publisher=a", logging.WARNING))
    recent.handle(_event("archived; file=3"))
    assert [(event.text, event.times) for event in recent.events()] == [
        ("link up; publisher=a", 1),
        ("archived; file=2", 3),
        ("shipped; file=2", 3),
        ("link down, buffering; publisher=a", 1),
        ("archived; file=3", 1),
    ]


def test_events_are_kept_below_the_level_of_the_log() -> None:
    stream = io.StringIO()
    set_up_logs(LogConfig(level="error"), stream, {})
    logging.getLogger("agent.test").info("kept; n=%d", 7)
    (_, recent) = logging.getLogger().handlers
    assert isinstance(recent, RecentEvents)
    assert recent.events()[-1].text == "kept; n=7"
    assert stream.getvalue() == ""


def test_what_counts_as_routine_is_what_the_agent_logs() -> None:
    sources = "".join(path.read_text() for path in Path("agent").rglob("*.py"))
    assert [text for text in ROUTINE if f'log.info("{text};' not in sources] == []
