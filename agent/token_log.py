"""Where in the journal the last readings of each source stand that sends again what is not acknowledged.

A process may die after a commit and before the source is told. The source sends those readings once more, and the next
process must know them. Only the journal knows what was committed, so before each commit the log notes the place of
every reading in it that has a lasting token. After a restart, what stands at its place was committed, and the rest was
not: also where a power cut tore a commit in two.

Promises: a note is on the medium before the commit that it tells of. Of each source the last note is kept; what came
before was committed before it, for batches are committed in order. A log that is lost or damaged costs readings that
come twice, never one that is missing.

Limits: one process. Two files are written in turns, in place: `CRC-32 as eight hex digits, space, JSON`.
"""

import contextlib
import errno
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from agent.atomic_files import sync_directory
from agent.batch import Batch
from agent.errors import StorageError
from agent.journal.inspection import View
from agent.routing import Route
from agent.wrap import Refused
from drivers.reading import Reading

__all__ = ["LastingReadings", "Placed", "Recalled", "TokenLog"]

FILES: Final = ("tokens.0", "tokens.1")
MAX_FILE_BYTES: Final = 4 << 20
_CRC_DIGITS: Final = 8


class Placed(NamedTuple):
    """A reading's token, and the place in the journal that its message will have."""

    token: int
    lane: int
    position: int


class Recalled(NamedTuple):
    """What a source handed over last, and which of it never got to the medium."""

    latest: Collection[int]
    lost: Collection[int]


class LastingReadings:
    """The readings of a commit whose tokens outlive the process, by source. Most commits have none."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._sources = {id(each): batch.source for batch in batches if batch.is_lasting for each in batch.readings}

    def __bool__(self) -> bool:
        return bool(self._sources)

    def place(
        self,
        routed: Sequence[tuple[Route, Sequence[Reading]]],
        refused: Sequence[Refused],
        first_positions: Mapping[int, int],
    ) -> dict[str, list[Placed]]:
        """Where each will stand: in its lane, route by route, in order, without those that no message can hold."""
        places: dict[str, list[Placed]] = {}
        unkept = {id(each.reading) for each in refused}
        positions = dict(first_positions)
        for route, readings in routed:
            for reading in readings:
                if id(reading) in unkept:
                    continue
                if (source := self._sources.get(id(reading))) and reading.token is not None:
                    placed = Placed(reading.token, route.priority, positions[route.priority])
                    places.setdefault(source, []).append(placed)
                positions[route.priority] += 1
        return places


class TokenLog:
    """Reads what an earlier process noted. Its folder must exist."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in FILES]
        found = max((_read(path) for path in self._paths), key=lambda each: each[0])
        self._number, self._latest = found
        self._lost: dict[str, set[int]] = {}

    def compare(self, view: View) -> None:
        """Find out what of it an earlier process has committed. Before the journal is opened, which may shed."""
        for source, places in self._latest.items():
            self._lost[source] = {placed.token for placed in places if not _is_kept(view, placed)}

    def recall(self, source: str) -> Recalled:
        """For a driver that begins. While the process runs, only when nothing of that source is under way."""
        latest = [placed.token for placed in self._latest.get(source, [])]
        return Recalled(latest, self._lost.get(source, set()))

    def note(self, places: Mapping[str, list[Placed]]) -> None:
        """Return when it is on the medium. Raises: StorageError."""
        self._latest = {**self._latest, **places}
        for source in places:
            self._lost.pop(source, None)
        number = self._number + 1
        text = json.dumps({"number": number, "sources": self._latest}).encode()
        path = self._paths[number % len(FILES)]
        try:
            _write(path, b"%08x %s" % (crc32(text), text))
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from error
        self._number = number  # only now, so that another try spares the other file


def _is_kept(view: View, placed: Placed) -> bool:
    lane = view.lanes.get(placed.lane)
    if lane is None:
        return False
    if placed.position < lane.first_position:  # everybody has read it, and the journal has let go of it
        return True
    if placed.position >= lane.next_position:
        return False
    record = next(view.records(lane, placed.position), None)
    return record is not None and record.position == placed.position


def _write(path: Path, data: bytes) -> None:
    """In place: the other file still has the note before. A new one has its name on the medium too."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        if os.pwrite(descriptor, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(descriptor, len(data))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_directory(path.parent)


def _read(path: Path) -> tuple[int, dict[str, list[Placed]]]:
    """Its number and notes; 0 and nothing if it is absent, torn or not ours."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
        text = data[_CRC_DIGITS + 1 :]
        if int(data[:_CRC_DIGITS], 16) == crc32(text):
            document: dict[str, Any] = json.loads(text)
            notes = {source: [Placed(*each) for each in places] for source, places in document["sources"].items()}
            return int(document["number"]), notes
    return 0, {}
