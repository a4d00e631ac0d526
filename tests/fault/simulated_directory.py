"""A directory on a disk that loses power: what was not synced may be there, be gone, or be torn."""

import itertools
import random
from collections.abc import Callable
from typing import NoReturn

from agent.archive import NewFile


class PowerLoss(Exception):
    """The lights went out within an operation."""


class _Inode:
    def __init__(self, content: bytes = b"", synced: bytes = b"") -> None:
        self.content = content
        self.synced = synced


Change = Callable[[dict[str, _Inode]], object]


class SimulatedDirectory:
    """Fails at its `crash_at`-th change. `after_power_loss` then gives one of the disks that could be left."""

    def __init__(self, crash_at: int | None = None) -> None:
        self._crash_at = crash_at
        self._operations = itertools.count(1)
        self._names: dict[str, _Inode] = {}
        self._synced_names: dict[str, _Inode] = {}
        self._changes: list[Change] = []  # of the names, since they were last synced
        self.crashed = False
        self.fail_with: OSError | None = None  # raised instead of going dark

    def after_power_loss(self, chance: random.Random) -> "SimulatedDirectory":
        """Of the changes of names that were not synced, any may have reached the disk without the others."""
        names = dict(self._synced_names)
        for change in self._changes:
            if chance.random() < 0.5:
                change(names)
        left = SimulatedDirectory()
        left._names = {name: _survivor(inode, chance) for name, inode in names.items()}
        left._synced_names = dict(left._names)
        return left

    def after_kill(self) -> "SimulatedDirectory":
        """Only the process died: everything that reached the kernel is there."""
        left = SimulatedDirectory()
        left._names = {name: _Inode(inode.content, inode.content) for name, inode in self._names.items()}
        left._synced_names = dict(left._names)
        return left

    def names(self) -> list[str]:
        return sorted(self._names)

    def size(self, name: str) -> int:
        return len(self._names[name].content)

    def read(self, name: str, offset: int, count: int) -> bytes:
        return self._names[name].content[offset : offset + count]

    def create(self, name: str) -> NewFile:
        inode = _Inode()
        self._change(lambda names: names.update({name: inode}))
        return _SimulatedFile(self, inode)

    def rename(self, old: str, new: str) -> None:
        def move(names: dict[str, _Inode]) -> None:
            if old in names:
                names[new] = names.pop(old)

        self._change(move)

    def remove(self, name: str) -> None:
        self._change(lambda names: names.pop(name, None))

    def sync(self) -> None:
        self._step()
        self._synced_names = dict(self._names)
        self._changes = []

    def free_bytes(self) -> int:
        return 1 << 40

    def close(self) -> None:
        pass

    def _change(self, change: Change) -> None:
        self._step()
        change(self._names)
        self._changes.append(change)

    def _step(self) -> None:
        if next(self._operations) == self._crash_at:
            self._crash()

    def _crash(self) -> NoReturn:
        self.crashed = True
        if self.fail_with is not None:
            raise self.fail_with
        raise PowerLoss


class _SimulatedFile:
    def __init__(self, directory: SimulatedDirectory, inode: _Inode) -> None:
        self._directory = directory
        self._inode = inode

    def write(self, data: bytes) -> None:
        if not data:
            return
        before = self._inode.content
        self._inode.content = before + data[: len(data) // 2]  # a crash within the write leaves a part of it
        self._directory._step()
        self._inode.content = before + data

    def sync(self) -> None:
        self._directory._step()
        self._inode.synced = self._inode.content

    def close(self) -> None:
        pass


def _survivor(inode: _Inode, chance: random.Random) -> _Inode:
    """What was synced, and of the rest a beginning, perhaps with the last sector full of rubbish."""
    rest = inode.content[len(inode.synced) :]
    kept = rest[: chance.randint(0, len(rest))]
    torn = bytes(len(kept[-512:])) if chance.random() < 0.3 else kept[-512:]
    content = inode.synced + kept[:-512] + torn
    return _Inode(content, content)
