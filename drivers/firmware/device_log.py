"""What a device has to say, in the gateway's log; a device that talks too much is cut short."""

import logging
from typing import Final

from firmware_bridge import LogHeard
from protocol.link import LogLevel

__all__ = ["DeviceLog"]

MAX_LINES: Final = 60  # in each window
WINDOW_S: Final = 60.0
LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}

log = logging.getLogger(__name__)


class DeviceLog:
    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._window_began_s = 0.0
        self._lines = 0

    def pass_on(self, heard: LogHeard, now_s: float) -> None:
        if now_s - self._window_began_s >= WINDOW_S:
            self._begin_window(now_s)
        self._lines += 1
        if self._lines > MAX_LINES:
            return
        lost = f" lost_before={heard.lost_lines}" if heard.lost_lines else ""
        log.log(LEVELS[heard.line.level], "device says: %s; driver=%s%s", heard.line.text, self._driver, lost)

    def _begin_window(self, now_s: float) -> None:
        if self._lines > MAX_LINES:
            log.warning("device says too much; driver=%s left_out=%d", self._driver, self._lines - MAX_LINES)
        self._window_began_s, self._lines = now_s, 0
