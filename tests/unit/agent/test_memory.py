import subprocess
import sys

MANY_ARENAS = """
import ctypes, threading
from agent.memory import keep_memory_tight
{call}
keep = [threading.Thread(target=lambda: [ctypes.create_string_buffer(50_000) for _ in range(4)]) for _ in range(8)]
for thread in keep: thread.start()
for thread in keep: thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def arenas(call: str) -> int:
    done = subprocess.run([sys.executable, "-c", MANY_ARENAS.format(call=call)], capture_output=True, check=True)
    return done.stderr.count(b"Arena ")


def test_all_threads_share_one_arena() -> None:
    assert arenas("keep_memory_tight()") == 1
    assert arenas("") > 1
