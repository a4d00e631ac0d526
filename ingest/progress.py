"""How far a run is, on stderr: archives and records done, the rate, the time left."""

import sys
import time
from typing import TextIO

from ingest.load import Loaded


class Progress:
    """One line per batch, and one at the end."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._started_s = time.monotonic()
        self._expected = 0
        self.archives = 0
        self.records = 0

    def expect(self, archives: int) -> None:
        self._expected = max(0, archives)
        self._say(f"{self._expected} archives to look at")

    def reach(self, loaded: Loaded) -> None:
        self.archives += loaded.archives
        self.records += loaded.records
        self._say(f"{self._done()}{self._time_left()}")

    def finish(self) -> None:
        self._say(f"done: {self._done()}")

    def warn(self, problem: str) -> None:
        """Also where progress is not shown."""
        print(f"headgate: {problem}", file=self._stream, flush=True)

    def _done(self) -> str:
        spent_s = max(time.monotonic() - self._started_s, 1e-3)
        return f"{self.archives} archives, {self.records} records, {self.records / spent_s:.0f} records/s"

    def _time_left(self) -> str:
        left = self._expected - self.archives
        if left <= 0 or not self.archives:
            return ""
        left_s = (time.monotonic() - self._started_s) / self.archives * left
        return f", {left} archives to go, about {left_s:.0f} s"

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=self._stream, flush=True)
