import os
import subprocess
import sys

MANY_ARENAS = """
import ctypes, threading
from agent.service.memory import reduce_memory_use
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
    assert arenas("reduce_memory_use()") == 1
    assert arenas("") > 1


STAND_IN = """
import sys
from agent.service.memory import reduce_memory_use
reduce_memory_use()
import importlib.metadata
import urllib.request
assert not {"http.client", "zipfile"} & set(sys.modules), "imported, though nothing was used"
assert urllib.request.getproxies() == {"http": "http://proxy:3128"}
from urllib.request import Request, build_opener
assert "http.client" in sys.modules
assert Request is urllib.request.Request is sys.modules["urllib.request"].Request
assert urllib.request.__file__.endswith("request.py"), "the stand-in is still in place"
reduce_memory_use()
assert Request is urllib.request.Request, "replaced, though it was imported"
assert importlib.metadata.version("websockets")
"""


def test_what_libraries_rarely_use_is_imported_when_it_is_used() -> None:
    subprocess.run([sys.executable, "-c", STAND_IN], check=True, env={**os.environ, "http_proxy": "http://proxy:3128"})


GARBAGE = """
import gc, weakref
from agent.service.memory import release_startup_memory
gc.disable()
class Left: pass
left = Left()
left.itself, seen = left, weakref.ref(left)
del left
gc.freeze()
release_startup_memory()
assert seen() is None, "what is garbage stays"
assert gc.get_freeze_count() > 1000, "what lives is looked through again"
"""


def test_what_the_start_left_behind_is_cleared_though_it_was_frozen() -> None:
    subprocess.run([sys.executable, "-c", GARBAGE], check=True)
