"""The archive directory: whole archives under their final names, and one small state file.

Promises, each with a test that can fail:

1. A file under an archive's final name is whole, whatever crashed when: it is complete and synced before it gets the
   name.
2. No record is skipped, and none is in two archives unless one of them rotted; nor is a loss, as long as the archive
   that tells of it waits for its receipt. The state file moves forward before the archive gets its name, and names it;
   a crash in between is finished on the next start.
3. What a crash leaves behind begins with a dot and is gone after the next start.
4. An archive is deleted only for a valid receipt of exactly that file.

    .writing ─ sync ─► .<sha256>.ready ─ sync names ─► state names it ─ sync ─► <sha256>.hga ─ sync names

Should the state file itself be lost or damaged, it is made anew from the manifests of the archives that are there; what
went out already or is sealed is then unknown and may be archived a second time, which the ingest sees by the messages'
identity.
"""

from collections.abc import Mapping

from agent.archive.directory import Directory
from agent.archive.state import MAX_KEPT_ARCHIVES, MAX_STATE_BYTES, NOTHING, ArchiveState, KeptArchive
from protocol.archive import Receipt, open_archive
from protocol.errors import WireError

STATE_NAME = "archives.state"
NEW_STATE_NAME = ".archives.state.new"
PLAIN_SUFFIX = ".hga"
SEALED_SUFFIX = ".hgs"
ARCHIVE_SUFFIXES = (PLAIN_SUFFIX, SEALED_SUFFIX)


class ArchiveStore:
    """Opens the directory, finishes or clears what a crash left, and knows how far the journal is archived."""

    def __init__(self, directory: Directory, journal_id: bytes) -> None:
        self._directory = directory
        self._journal_id = journal_id
        self.was_rebuilt = False
        self.missing: tuple[str, ...] = ()  # archives that should be here and are not; someone should know
        self.recover()

    @property
    def state(self) -> ArchiveState:
        return self._state

    @property
    def is_full(self) -> bool:
        """Whether so many archives wait for a receipt that another would be one too many."""
        return len(self._state.kept) >= MAX_KEPT_ARCHIVES

    def is_archived(self, lane: int, position: int) -> bool:
        return position <= self._state.archived_up_to.get(lane, NOTHING)

    def keep_within(self, next_positions: Mapping[int, int]) -> None:
        """Where the journal begins positions anew, what comes there is archived. Raises: OSError."""
        state = self._state.within(next_positions)
        if state is not self._state:
            self._write_state(state)

    def publish(self, temporary: str, archive: KeptArchive) -> None:
        """Give a complete and synced temporary file its final name, and move the state forward with it."""
        ready = _ready_name(archive)
        self._directory.rename(temporary, ready)
        self._directory.sync()
        self._write_state(self._state.with_archive(archive))
        self._directory.rename(ready, archive.file_name)
        self._directory.sync()

    def release(self, receipt: Receipt, *, device: bytes, collector_key: bytes) -> KeptArchive | None:
        """Delete the archive that the receipt covers. None if it covers none that is still kept."""
        for archive in self._state.kept:
            if receipt.covers(
                archive=archive.sha256, size_bytes=archive.size_bytes, device=device, collector_key=collector_key
            ):
                self._write_state(self._state.without_archive(archive))
                self._directory.remove(archive.file_name)
                self._directory.sync()
                return archive
        return None

    def discard(self, archive: KeptArchive) -> None:
        """Give up an archive that is damaged or gone, and have its records and losses archived again."""
        self._write_state(self._state.before_archive(archive))
        self._directory.remove(archive.file_name)
        self._directory.sync()

    def recover(self) -> None:
        """Take the state from the disk and finish, or clear away, what was begun. After a failed write, do it again."""
        self._state = self._read_state()
        names = set(self._directory.names())
        for archive in self._state.kept:
            if _ready_name(archive) in names:
                self._directory.rename(_ready_name(archive), archive.file_name)
        for name in self._directory.names():
            if name.startswith(".") or name == self._state.deleting:
                self._directory.remove(name)
        self._directory.sync()
        names = set(self._directory.names())
        self.missing = tuple(each.file_name for each in self._state.kept if each.file_name not in names)

    def _write_state(self, state: ArchiveState) -> None:
        file = self._directory.create(NEW_STATE_NAME)
        try:
            file.write(state.to_bytes())
            file.sync()
        finally:
            file.close()
        self._directory.rename(NEW_STATE_NAME, STATE_NAME)
        self._directory.sync()
        self._state = state

    def _read_state(self) -> ArchiveState:
        names = self._directory.names()
        if STATE_NAME not in names:
            return self._rebuild(names)
        try:
            state = ArchiveState.from_bytes(self._directory.read(STATE_NAME, 0, MAX_STATE_BYTES))
        except WireError:
            return self._rebuild(names)
        return state.for_journal(self._journal_id)

    def _rebuild(self, names: list[str]) -> ArchiveState:
        """The state as the archives tell it. They are in no order, and it does not matter."""
        state = ArchiveState(journal_id=self._journal_id)
        for name in names:
            if name.endswith(PLAIN_SUFFIX):
                self.was_rebuilt = True
                state = self._with_found(state, name)
        return state

    def _with_found(self, state: ArchiveState, name: str) -> ArchiveState:
        size_bytes = self._directory.size(name)
        try:
            found = open_archive(lambda offset, count: self._directory.read(name, offset, count), size_bytes)
            archive = KeptArchive(
                file_name=name,
                sha256=bytes.fromhex(name.removesuffix(PLAIN_SUFFIX)),
                size_bytes=size_bytes,
                lanes=found.manifest.lanes,
                losses=tuple(loss.number for loss in found.manifest.losses),
            )
        except (WireError, ValueError):
            return state
        if found.header.journal_id != state.journal_id:
            return state
        return state.with_archive(archive)


def _ready_name(archive: KeptArchive) -> str:
    return f".{archive.sha256.hex()}.ready"
