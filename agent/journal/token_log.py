"""The token log: finds the readings in the journal that a source sends again after a crash.

A process may die after a commit and before the source is acknowledged. The source then sends those readings once more,
and the next process must recognise them. Only the journal knows what was committed, so before each commit the log
notes, for every reading in it whose token outlives the process, where its record will stand and a digest of it. After a
restart the journal is asked for exactly that record: what it has was committed, the rest was not, also where a power
cut tore a commit in two.

The result is certain only as long as nothing else was committed: afterwards another record may have the position, or
the position may be released. So the results are written to the log before the first commit of the new process, and
later processes read them.

Promises: a note is on the medium before the commit that it describes, and the answers before the next commit. Of each
source the last note is kept; what came before was committed before it, for batches are committed in order. A log that
is lost or damaged costs readings that come twice, never one that is missing.

Limits: one process. Two files are written in turns, in place: `CRC-32 as eight hex digits, space, JSON`.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from agent.errors import StorageError
from agent.journal.inspection import View
from runtime.durable_files import sync_directory

VERSION: Final = 2
FILES: Final = ("tokens.0", "tokens.1")
MAX_FILE_BYTES: Final = 4 << 20
DIGEST_BYTES: Final = 8  # against accidents: no one else writes to the journal
_CRC_DIGITS: Final = 8


class Noted(NamedTuple):
    """A reading's token, and its place in the journal with the next commit."""

    token: int
    lane: int
    position: int  # of the reading
    digest: str  # of the message that holds it


class Recalled(NamedTuple):
    """The tokens that a source delivered last, and which of them never got to the medium."""

    latest: Collection[int]
    lost: Collection[int]


def digest_of(payload: bytes) -> str:
    """What names a record: its payload holds chain, reference and signature."""
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).hexdigest()


class _Log(NamedTuple):
    """One file: what the journal has yet to be asked, and what it answered (token ──► whether it is committed)."""

    number: int
    noted: dict[str, list[Noted]]
    answered: dict[str, dict[int, bool]]
    data: bytes = b""  # as it was read


class TokenLog:
    """Reads what an earlier process noted. Its folder must exist."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in FILES]
        found = max((_read(path) for path in self._paths), key=lambda each: each.number)
        self._number, self._noted, self._answered, self._doubtful = found
        self._is_named: set[Path] = set()  # files whose names are known to be on the medium
        self._is_unsaved = bool(self._answered)  # the process that wrote the answers may have failed to sync them

    def compare(self, view: View) -> None:
        """Look up every noted record in the journal. A record that was shed counts as committed: its loss is reported.

        If the disk refuses the results now, they are written again before the first commit.
        """
        for source, noted in self._noted.items():
            self._answered[source] = {each.token: _is_committed(view, each) for each in noted}
        self._is_unsaved = bool(self._answered)
        self._noted = {}
        with contextlib.suppress(StorageError):
            self._save_answers()

    def recall(self, source: str) -> Recalled:
        """For a driver that starts. While the process runs, only when no reading of that source is in flight."""
        if source in self._noted:  # by this process, which has committed it since
            return Recalled([noted.token for noted in self._noted[source]], set())
        answers = self._answered.get(source, {})
        return Recalled(list(answers), {token for token, is_committed in answers.items() if not is_committed})

    def note(self, noted: Mapping[str, list[Noted]]) -> None:
        """Before a commit: by source, where its readings will stand. Returns when all is on the medium.

        Raises: StorageError.
        """
        if noted:
            self._noted.update(noted)
            for source in noted:
                self._answered.pop(source, None)
            self._save()
        else:
            self._save_answers()

    def _save_answers(self) -> None:
        if self._is_unsaved:
            self._save()

    def _save(self) -> None:
        number = self._number + 1
        answers = {source: list(tokens.items()) for source, tokens in self._answered.items()}
        document = {"version": VERSION, "number": number, "sources": self._noted, "answered": answers}
        text = json.dumps(document).encode()
        path = self._paths[number % len(FILES)]
        try:
            self._settle()
            _write(path, b"%08x %s" % (crc32(text), text))
            if path not in self._is_named:
                sync_directory(path.parent)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from error
        self._is_named.add(path)
        self._number = number  # only now, so that another try spares the other file
        self._is_unsaved = False

    def _settle(self) -> None:
        """Before the other file is overwritten: the process that wrote this one may have failed to sync it."""
        if self._doubtful:
            _write(self._paths[self._number % len(FILES)], self._doubtful)
            self._doubtful = b""


def _is_committed(view: View, noted: Noted) -> bool:
    lane = view.lanes.get(noted.lane)
    if lane is None or noted.position >= lane.next_position:
        return False
    if noted.position < lane.first_position:  # the process that noted it committed it: every reader has passed it
        return True
    record = next(view.records(lane, noted.position), None)
    return record is not None and record.position <= noted.position and digest_of(record.payload) == noted.digest


def _write(path: Path, data: bytes) -> None:
    """In place: the other file still has the previous note."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        if os.pwrite(descriptor, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(descriptor, len(data))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> _Log:
    """Number 0 and nothing if it is absent, torn or not ours."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
        text = data[_CRC_DIGITS + 1 :]
        document: dict[str, Any] = json.loads(text) if int(data[:_CRC_DIGITS], 16) == crc32(text) else {}
        if document["version"] == VERSION:
            noted = {source: [Noted(*each) for each in several] for source, several in document["sources"].items()}
            answered = {source: dict(pairs) for source, pairs in document["answered"].items()}
            return _Log(int(document["number"]), noted, answered, data)
    return _Log(0, {}, {})
