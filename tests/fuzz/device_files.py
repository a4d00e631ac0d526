"""Any bytes, as a key file or as one of the archive directory's state files, give a value or a `WireError`.

A checksum keeps chance out, so an input is also taken with the checksum that fits it.
"""

import contextlib
import hashlib

from agent.archive.state import ArchiveState
from agent.archive.stated import Stated
from agent.errors import ConfigError
from agent.keys.key_file import decode_key_file
from protocol.errors import WireError
from tests.unit.agent.archive.test_state import FIRST, STATE
from tests.unit.agent.archive.test_stated import STATED
from tests.unit.agent.keys.test_key_file import LOCKED, PLAIN

SEEDS = [
    each[:-32] for each in (PLAIN, LOCKED, STATE.to_bytes(), STATE.with_damaged(FIRST).to_bytes(), STATED.to_bytes())
]


def fuzz_one(data: bytes) -> None:
    for whole in (data, data + hashlib.sha256(data).digest()):
        with contextlib.suppress(WireError, ConfigError):
            decode_key_file(whole).unlock(None)
        for read in (ArchiveState.from_bytes, Stated.from_bytes):
            with contextlib.suppress(WireError):
                found = read(whole)
                assert read(found.to_bytes()) == found
