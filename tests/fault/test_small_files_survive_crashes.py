"""The clock's ceiling and the group keys, crashed anywhere over several lives, with syncs that fail.

| file | law |
|---|---|
| `clock.ceiling` | references of a chain only rise, whatever the clock says after the crash |
| `keys/groups/` | a key that something was encrypted with is there in every later life |
"""

import contextlib
import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.clock import CeilingFile, ChainReferences
from agent.errors import StorageError
from agent.keys import DeviceKeys, Secret
from agent.keys.group_keys import GroupKeyStore, KeptGroupKey
from protocol.reference import Reference
from tests.effort import seeds
from tests.support.crashing_folder import CrashingFolder

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
STREAM = "0xab/secret"


class Crash(BaseException):
    """The process ends here."""


def live(folder: CrashingFolder, chance: random.Random, process: Callable[[], None], operations: int) -> None:
    """Run a process that may die before any of its first operations, and some of whose syncs may fail."""
    left = chance.randint(1, operations) if chance.random() < 0.9 else 1_000_000
    failing = chance.random() < 0.3

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Crash

    def fault(operation: str, _path: str) -> int | None:
        return errno.EIO if failing and operation == "sync" and chance.random() < 0.2 else None

    folder.before_each, folder.fault = count_down, fault
    with contextlib.suppress(Crash, StorageError, OSError):
        process()
    folder.before_each, folder.fault = lambda: None, lambda _operation, _path: None


def live_on(tmp_path: Path, chance: random.Random, process: Callable[[Path], None], *, operations: int = 12) -> None:
    """Several processes, killed and restarted, between power cuts; most die within so many operations on the disk."""
    path = tmp_path / "data"
    for cut in range(3):
        with CrashingFolder(path, chance) as folder:
            for _ in range(chance.randint(2, 5)):
                live(folder, chance, lambda folder=folder: process(folder.path), operations)  # type: ignore[misc]
            path = folder.after_power_loss(tmp_path / f"found-{cut}", chance)
        for each in (path, *path.rglob("*")):
            each.chmod(0o700 if each.is_dir() else 0o600)
    process(path)


@pytest.mark.parametrize("seed", seeds(test=6, soak=3000))
def test_references_rise_over_all_lives(tmp_path: Path, seed: int) -> None:
    chance, given = random.Random(seed), [Reference(0, 0)]

    def process(folder: Path) -> None:
        ceiling = CeilingFile(folder / "clock.ceiling")
        with contextlib.closing(ceiling):
            floor = chance.choice((None, given[-1]))  # None: the journal has released everything
            references = ChainReferences(ceiling, floor)
            for _ in range(chance.randint(1, 4)):
                now_ms = 1_700_000_000_000 + chance.randint(-3, 3) * 100_000
                references.reserve(now_ms)
                reference = references.next("chain", now_ms)
                assert reference > given[-1]
                given.append(reference)

    live_on(tmp_path, chance, process)


def test_a_ceiling_that_was_never_synced_is_not_relied_upon(tmp_path: Path) -> None:
    """The sync of one process fails, the next one finds its ceiling in the page cache, and then the power fails."""
    path, now_ms = tmp_path / "data", 1_700_000_000_000
    with CrashingFolder(path) as folder:
        with contextlib.closing(CeilingFile(path / "clock.ceiling")) as ceiling:
            folder.fault = lambda operation, _path: errno.EIO if operation == "sync" else None
            with pytest.raises(StorageError):
                ChainReferences(ceiling, None).reserve(now_ms)
        folder.fault = lambda _operation, _path: None
        with contextlib.closing(CeilingFile(path / "clock.ceiling")) as ceiling:
            references = ChainReferences(ceiling, Reference(now_ms, 0))
            references.reserve(now_ms)
            given = references.next("chain", now_ms)
        found = folder.after_power_loss(tmp_path / "found", random.Random(1))
    with contextlib.closing(CeilingFile(found / "clock.ceiling")) as ceiling:
        assert ChainReferences(ceiling, None).next("chain", now_ms - 1_000_000) > given


@pytest.mark.parametrize("seed", seeds(test=6, soak=3000))
def test_a_key_that_was_used_is_never_lost(tmp_path: Path, seed: int) -> None:
    chance, used = random.Random(seed), set[str]()

    def process(folder: Path) -> None:
        store = GroupKeyStore(folder / "keys" / "groups", KEYS)
        missing = used - {key.key_id for key in store.history(STREAM)}
        assert not missing
        if (current := store.current(STREAM)) is not None:
            used.add(current.key_id)  # the newest key stays in use after a restart
        for _ in range(chance.randint(0, 2)):
            key = KeptGroupKey(key_id=str(chance.random()), created_at_ms=0, secret=Secret(chance.randbytes(32)))
            store.add(STREAM, key)
            used.add(key.key_id)

    live_on(tmp_path, chance, process)
