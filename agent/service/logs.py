"""Logs: one line per event on stderr, words then key=value; with the priorities that journald reads, or as JSON.

Nothing is written to a file: the service manager stores logs. The agent logs states and changes, not repetitions. If a
line repeats all the same, each place in the code may log `BURST` lines at once and one every `PACE_S` after that, and
the next line has the number left out. So a day of logs is bounded, and one busy place does not suppress another.

The last few events are kept in memory for the status page, whatever the level of the log.
"""

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TextIO

from agent.config.configuration import LogConfig
from protocol.shown_text import printable
from runtime.token_bucket import TokenBucket

MAX_LINE_CHARACTERS: Final = 2000
BURST: Final = 100  # more than there are devices to come up at once
PACE_S: Final = 30.0
MAX_PLACES: Final = 1000
MAX_EVENTS: Final = 60
MAX_EVENT_CHARACTERS: Final = 400
ROUTINE: Final = frozenset({"archived", "shipped", "keys sent"})
_PRIORITIES: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}  # of syslog


class LineFormatter(logging.Formatter):
    """Lines with a priority in front for journald, or with a time for a terminal."""

    def __init__(self, *, is_journal: bool) -> None:
        super().__init__("%(levelname)s %(message)s" if is_journal else "%(asctime)s %(levelname)s %(message)s")
        self._is_journal = is_journal

    def format(self, record: logging.LogRecord) -> str:
        text = _one_line(super().format(record))
        text += _left_out(record)
        return f"<{_PRIORITIES.get(record.levelname, 6)}>{text}" if self._is_journal else text


class JsonFormatter(logging.Formatter):
    """JSON objects; under journald with the priority in front, which journald removes."""

    def __init__(self, *, is_journal: bool) -> None:
        super().__init__()
        self._is_journal = is_journal

    def format(self, record: logging.LogRecord) -> str:
        text = _one_line(record.getMessage())
        fields = {"at": record.created, "level": record.levelname, "module": record.name, "message": text}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)[-MAX_LINE_CHARACTERS:]
        if left_out := getattr(record, "left_out", 0):
            fields["left_out"] = left_out
        line = json.dumps(fields, ensure_ascii=False)
        return f"<{_PRIORITIES.get(record.levelname, 6)}>{line}" if self._is_journal else line


def _one_line(text: str) -> str:
    """Escape line breaks and control characters, so that a value cannot forge a log line."""
    text = printable(text[: MAX_LINE_CHARACTERS + 1])
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"


def _left_out(record: logging.LogRecord) -> str:
    count = getattr(record, "left_out", 0)
    return f" left_out={count}" if count else ""


class RepetitionLimit(logging.Filter):
    """Limits the lines of each place in the code: a burst, and a rate."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._now_s()
        place = self._places.get((record.pathname, record.lineno))
        if place is None:
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            place = self._places[record.pathname, record.lineno] = _Place()
        if not place.may_log(now_s):
            return False
        record.left_out = place.take_left_out()
        return True


class _Place:
    """The lines of one place in the code: `BURST` at once, then one every `PACE_S`."""

    __slots__ = ("_left_out", "_lines")

    def __init__(self) -> None:
        self._lines = TokenBucket(1 / PACE_S, BURST)
        self._left_out = 0

    def may_log(self, now_s: float) -> bool:
        if self._lines.take_if_available(1, now_s) > 0:
            self._left_out += 1
            return False
        return True

    def take_left_out(self) -> int:
        count, self._left_out = self._left_out, 0
        return count


def leads_to_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether stderr is connected to journald; $JOURNAL_STREAM alone may be inherited."""
    try:
        file = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return environment.get("JOURNAL_STREAM") == f"{file.st_dev}:{file.st_ino}"


class Event(NamedTuple):
    """One log line; for routine events, `times` counts them since the last other event."""

    at_ms: int
    level: str
    text: str
    times: int


class RecentEvents(logging.Handler):
    """The last events, newest last. Repeated routine events count as one, so that they do not displace others."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)

    def emit(self, record: logging.LogRecord) -> None:
        event = Event(int(record.created * 1000), record.levelname, record.getMessage()[:MAX_EVENT_CHARACTERS], times=1)
        headline = _headline(event)
        if headline in ROUTINE:
            event = event._replace(times=1 + self._take_latest_routine(headline))
        self._events.append(event)

    def _take_latest_routine(self, headline: str) -> int:
        """How often it happened since the last event that matters; its entry is removed."""
        for index in reversed(range(len(self._events))):
            found = _headline(self._events[index])
            if found == headline:
                times = self._events[index].times
                del self._events[index]
                return times
            if found not in ROUTINE:
                break
        return 0

    def events(self) -> list[Event]:
        self.acquire()
        try:
            return list(self._events)
        finally:
            self.release()


def _headline(event: Event) -> str:
    return event.text.partition(";")[0]


RECENT_EVENTS: Final = RecentEvents()  # one for the process, as logging itself


def set_up_logs(config: LogConfig, stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> None:
    """May be called again, after a reload."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    is_journal = leads_to_journal(stream, environment)
    form = JsonFormatter if config.format == "json" else LineFormatter
    handler.setFormatter(form(is_journal=is_journal))
    root = logging.getLogger()
    handler.setLevel(config.level.upper())
    if handler.level > logging.DEBUG:  # at level debug nothing is left out
        handler.addFilter(RepetitionLimit())
    root.handlers[:] = [handler, RECENT_EVENTS]
    root.setLevel(min(handler.level, RECENT_EVENTS.level))
    logging.getLogger("websockets").setLevel(max(handler.level, logging.WARNING))
