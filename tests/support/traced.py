"""Runs a Python module or function and records which functions of the project were called after a given one.

    python -m tests.support.traced OUT FIRST module ARGUMENT…

`FIRST` is `path/of/file.py:function`; recording begins with its first call, which leaves out start-up. `OUT` receives
one line per function, `path/of/file.py function`, when the process ends.
"""

import atexit
import runpy
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]


class Recorder:
    def __init__(self, first: str) -> None:
        path, _, self._first_function = first.rpartition(":")
        self._first_path = str(ROOT / path)
        self._is_recording = False
        self._codes: set[CodeType] = set()

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if self._is_recording:
            self._codes.add(code)
        elif code.co_name == self._first_function and code.co_filename == self._first_path:
            self._is_recording = True
            self._codes.add(code)

    def write(self, out: Path) -> None:
        ours = (code for code in self._codes.copy() if code.co_filename.startswith(f"{ROOT}/"))
        named = {(str(Path(code.co_filename).relative_to(ROOT)), code.co_name) for code in ours}
        lines = [f"{path} {name}\n" for path, name in sorted(named) if name != "<module>" and ".venv" not in path]
        out.write_text("".join(lines))


def record(out: Path, first: str) -> None:
    """Record this process from the first call of `first` to its end."""
    recorder = Recorder(first)
    atexit.register(recorder.write, out)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2])
    sys.argv = sys.argv[3:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
