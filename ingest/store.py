"""The tables as files, and the one way in which they change.

    tables/
      messages/date=2026-11-16/000012-….parquet     one folder per date; so for rollups
      quarantine/000012-….parquet                   one file or more per commit; so for archives
      gaps/…  ledger/…                              small, written anew by each commit
      _headgate/                                    what only the ingest needs; readers of tables pass over the name
        format, account.json, commit.json, group-keys.json, work/, checkpoint/, lock

A commit adds files and removes files, in several tables at once. Its promise: it happens wholly or not at all, whatever
is killed when. New files are first written to `work/`; then `commit.json`, which names every move, gets its name in one
step and is synced; then the moves are made. A start that finds `commit.json` makes them again, as every one of them can
be made twice, wherever the tables lie by then. What lies in `work/` without being named is of a run that died, and is
removed.

A reader that lists a table in the middle of a commit may see some of its files; each file is whole. Our own readers
wait for its end.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from ingest.account import Account
from ingest.errors import IngestBusy, IngestError
from ingest.schemas import PARTITIONED, TABLES
from runtime.durable_files import replace_file, sync_directory

TableFormat = Literal["parquet", "delta"]
OWN_FOLDER: Final = "_headgate"
DATE_PREFIX: Final = "date="
FILE_MODE: Final = 0o644
MAX_LISTINGS: Final = 30  # that a reader makes, to see no half of a commit
WAIT_FOR_COMMIT_S: Final = 0.1
_START_ANEW: Final = "restore it from a copy, or let the ingest make all tables anew in another folder"


class StoredFile(NamedTuple):
    """A file of a table, by its path within the table's folder."""

    name: str

    @property
    def date(self) -> str | None:
        head, _, rest = self.name.partition("/")
        return head.removeprefix(DATE_PREFIX) if rest else None


@dataclass(slots=True)
class Change:
    """What a commit does to one table: `add` are files in the work area, `remove` are files of the table."""

    add: list[Path] = field(default_factory=list)
    remove: list[StoredFile] = field(default_factory=list)


class Store:
    """The tables of one folder. Between `open` and `close` no other run can write them."""

    def __init__(self, folder: Path, table_format: TableFormat | None = None) -> None:
        """Raises: IngestBusy if another run has it open, IngestError if it is of another format or damaged."""
        self.folder = folder
        self._own = folder / OWN_FOLDER
        self._own.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._own / "lock", folder)
        try:
            self.format = self._agree_on_format(table_format)
            self._recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def checkpoint(self) -> Path:
        return self._own / "checkpoint"

    def work(self, name: str) -> Path:
        """A new folder for new files, not there yet. Never one that a task of a dead run might still write to."""
        folder = self._own / "work" / f"{name}-{uuid.uuid4().hex}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def account(self) -> Account:
        """What the last commit left. Raises: IngestError where that is lost."""
        path = self._own / "account.json"
        try:
            return Account.from_json(path.read_bytes())
        except FileNotFoundError:
            if self.files("archives"):
                raise IngestError(f"{path}: is gone, and the tables are not empty; {_START_ANEW}") from None
            return Account()
        except (ValueError, KeyError, TypeError):
            raise IngestError(f"{path}: is damaged; {_START_ANEW}") from None

    def read_secrets(self) -> bytes | None:
        """What `write_secrets` left."""
        try:
            return (self._own / "group-keys.json").read_bytes()
        except FileNotFoundError:
            return None

    def write_secrets(self, data: bytes) -> None:
        """Keep what only the owner may read."""
        replace_file(self._own / "group-keys.json", data)

    def files(self, table: str, dates: Iterable[str] | None = None) -> list[StoredFile]:
        """The files of a table, of these dates only where they are given. Asking for dates costs what they cost."""
        return _list_files(self.folder, table, self.format, dates)

    def path(self, table: str, file: StoredFile) -> str:
        return str(self.folder / table / file.name)

    def commit(self, account: Account, changes: dict[str, Change]) -> None:
        """Make these changes and remember this account, wholly or not at all."""
        account.commits += 1
        _sync_files([path for change in changes.values() for path in change.add], self._own)
        plan = {
            "number": account.commits,
            "account": account.to_json().decode(),
            "tables": {table: self._plan(change, account.commits) for table, change in changes.items()},
        }
        replace_file(self._own / "commit.json", orjson.dumps(plan), mode=FILE_MODE)
        self._finish_commit()
        self._clear_work()

    def _finish_commit(self) -> None:
        """Make the moves of the commit that is written down, if there is one. Each can be made twice."""
        path = self._own / "commit.json"
        if not path.exists():
            return
        plan = orjson.loads(path.read_bytes())
        for table, changes in plan["tables"].items():
            self._apply(self.folder / table, changes, plan["number"])
        replace_file(self._own / "account.json", plan["account"].encode(), mode=FILE_MODE)
        path.unlink()
        sync_directory(self._own)

    def _recover(self) -> None:
        self._finish_commit()
        self._clear_work()
        for table in TABLES:
            (self.folder / table).mkdir(exist_ok=True)
        self.account()  # refuses now what would be refused in the middle of a run

    def _apply(self, table: Path, changes: dict[str, Any], number: int) -> None:
        folders = {self.folder, table}
        for source, name in changes["moves"]:
            target = table / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(self._own / source, target)
            folders.add(target.parent)
        for folder in folders:
            sync_directory(folder)
        if self.format == "delta":
            from ingest.delta import commit_delta

            commit_delta(table, [name for _, name in changes["moves"]], changes["remove"], number)
            return
        for name in changes["remove"]:
            (table / name).unlink(missing_ok=True)

    def _plan(self, change: Change, number: int) -> dict[str, object]:
        moves = []
        for index, path in enumerate(sorted(change.add)):
            part = path.parent.name if path.parent.name.startswith(DATE_PREFIX) else ""
            source = path.relative_to(self._own)  # so that a folder of tables can be moved between a crash and a start
            moves.append([str(source), str(Path(part) / f"{number:06d}-{index:05d}.parquet")])
        return {"moves": moves, "remove": [file.name for file in change.remove]}

    def _clear_work(self) -> None:
        shutil.rmtree(self._own / "work", ignore_errors=True)

    def _agree_on_format(self, wanted: TableFormat | None) -> TableFormat:
        path = self._own / "format"
        if path.exists():
            found: TableFormat = "delta" if path.read_text() == "delta" else "parquet"
            if wanted not in (None, found):
                raise IngestError(f"{self.folder}: these tables are in the format {found}, not {wanted}")
            return found
        replace_file(path, (wanted or "parquet").encode(), mode=FILE_MODE)
        return wanted or "parquet"


def _move(source: Path, target: Path) -> None:
    """It may have been made before. Raises: IngestError where neither end of it is there."""
    try:
        source.rename(target)
    except FileNotFoundError:
        if not target.exists():
            raise IngestError(f"{source}: is gone before it became {target}; {_START_ANEW}") from None


# --- for readers, who take no lock and change nothing ---


def files_of(tables: Path, table: str) -> list[Path]:
    """The files of a table. Raises: IngestError where there are no tables."""
    try:
        found = (tables / OWN_FOLDER / "format").read_text()
    except FileNotFoundError:
        raise IngestError(f"{tables}: there are no tables in it; 'headgate ingest run' makes them") from None
    files = _list_files(tables, table, "delta" if found == "delta" else "parquet", None)
    return [tables / table / file.name for file in files]


def files_of_all(tables: Path) -> dict[str, list[Path]]:
    """The files of every table, as one commit left them. Raises: IngestError where there are no tables.

    If a commit was cut and nobody has finished it, the files that there are.
    """
    for _ in range(MAX_LISTINGS):
        version = version_of(tables)
        found = {table: files_of(tables, table) for table in TABLES}
        if version_of(tables) == version and not (tables / OWN_FOLDER / "commit.json").exists():
            break
        time.sleep(WAIT_FOR_COMMIT_S)
    return found


def version_of(tables: Path) -> int | None:
    """Another number after each commit."""
    try:
        return (tables / OWN_FOLDER / "account.json").stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _list_files(tables: Path, table: str, table_format: TableFormat, dates: Iterable[str] | None) -> list[StoredFile]:
    folder = tables / table
    if table_format == "delta":
        from ingest.delta import delta_files

        return delta_files(folder, dates)
    if table not in PARTITIONED:
        return [StoredFile(path.name) for path in _parquet_files(folder)]
    days = (
        sorted(folder.glob(f"{DATE_PREFIX}*")) if dates is None else [folder / f"{DATE_PREFIX}{day}" for day in dates]
    )
    return [StoredFile(f"{day.name}/{path.name}") for day in days for path in _parquet_files(day)]


def _parquet_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
    except FileNotFoundError:
        return []


def _lock(path: Path, folder: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise IngestBusy(f"{folder}: another run writes these tables; wait for it to end") from None
    return lock


def _sync_files(paths: Iterable[Path], within: Path) -> None:
    """Make files durable, and their names, and those of the folders that they are in."""
    folders: set[Path] = set()
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        folders.update(folder for folder in path.parents if within in folder.parents)
    for folder in folders:
        sync_directory(folder)
