"""Crash anywhere while archiving: no half file under a final name, no record twice, none skipped, no leftovers."""

import errno
import hashlib
import itertools
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from nacl.public import PrivateKey, PublicKey
from nacl.signing import SigningKey

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.checkpoints import Facts, describe_log
from agent.archive.state import KeptArchive
from agent.archive.store import ArchiveStore, Directory
from agent.errors import StorageError
from agent.keys import DeviceKeys
from protocol.archive.encryption import Decryptor
from protocol.archive.random_access import OpenArchive, open_archive
from protocol.archive.receipt import Receipt
from protocol.archive.records import Record
from protocol.devicelog.checkpoint import Checkpoint, Relation, sign_checkpoint
from protocol.devicelog.entry import LogEntry
from protocol.devicelog.log import LogHead
from protocol.losses import Loss
from tests.effort import effort, seeds
from tests.support.archives import LOSS, record
from tests.support.device_logs import make_receipt
from tests.support.processes import ended
from tests.support.simulated_disk import SimulatedDisk

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
COLLECTOR = SigningKey(b"c" * 32)
COLLECTOR_BOX = PrivateKey(b"k" * 32)
JOURNAL_ID = b"journal-of-tests"
RECORDS = [record(number) for number in range(30)]
FOLDER = "archives/"


class Life:
    """The life of a device over several starts: a journal that grows, an archiver, a collector that gives receipts."""

    def __init__(self, chance: random.Random, encrypt_to: PublicKey | None) -> None:
        self.chance = chance
        self.settings = ArchiverSettings(max_records=9, max_text_bytes=10_000, encrypt_to=encrypt_to)
        self.committed = 0  # how much of RECORDS the journal has
        self.losses = [LOSS]  # until a receipt covers an archive that tells of it
        self.collected: dict[str, bytes] = {}  # what the collector has, by name
        self.sent: list[Checkpoint] = []
        self.now_ms = 1_700_000_000_000

    def live(self, directory: Directory) -> None:
        """Until everything is archived, or the lights go out."""
        store = ArchiveStore(directory, JOURNAL_ID)
        archiver = Archiver(store, directory, KEYS, self.settings)
        self.send_checkpoint(store)
        while True:
            self.now_ms += self.chance.randint(1, 100)  # differing clocks would show as differing files
            self.committed = min(len(RECORDS), self.committed + self.chance.randint(0, 15))
            archive = archiver.archive(iter(RECORDS[: self.committed]), lambda: self.losses, now_ms=self.now_ms)
            if self.chance.random() < 0.3:
                self.ship_one(store, directory)
            if self.chance.random() < 0.4:
                self.send_checkpoint(store)
            if archive is None and self.committed == len(RECORDS):
                return

    def ship_one(self, store: ArchiveStore, directory: Directory) -> None:
        for archive in store.state.kept[:1]:
            self.collected[archive.file_name] = read_whole(directory, archive.file_name)
            store.release(receipt_for(archive), device=KEYS.address, collector_key=bytes(COLLECTOR.verify_key))
            self.losses = [loss for loss in self.losses if loss.number not in archive.losses]

    def send_checkpoint(self, store: ArchiveStore) -> None:
        """Each states at least what the last one did, whatever happened in between."""
        committed = {record.lane: record.next_position for record in RECORDS[: self.committed]}
        facts = Facts(KEYS.binding, bytes(16), self.now_ms, bytes(32))
        checkpoint = sign_checkpoint(describe_log(store.state, committed, facts), KEYS.sign_archive)
        if self.sent:
            assert checkpoint.relation_to(self.sent[-1]) in (Relation.NEWER, Relation.EQUAL)
        store.state_checkpoint(checkpoint)
        self.sent.append(checkpoint)

    def check_stated(self, directory: Directory) -> None:
        """After a start, the journal continues behind everything that was stated before it."""
        stated = ArchiveStore(directory, JOURNAL_ID).stated_positions()
        for lane in self.sent[-1].lanes if self.sent else ():
            assert stated[lane.lane] >= lane.committed

    def everything(self, directory: Directory) -> dict[str, bytes]:
        """Every archive that ever got its name, here or at the collector."""
        return {**self.collected, **{name: read_whole(directory, name) for name in archive_names(directory)}}


def receipt_for(archive: KeptArchive) -> Receipt:
    return make_receipt(archive=archive.sha256, size_bytes=archive.size_bytes, device=KEYS.address, key=COLLECTOR)


def archive_names(directory: Directory) -> list[str]:
    return [name for name in directory.names() if name.endswith((".hga", ".hgs"))]


def read_whole(directory: Directory, name: str) -> bytes:
    return directory.read(name, 0, directory.size(name))


def opened(name: str, data: bytes) -> OpenArchive:
    assert name.startswith(hashlib.sha256(data).hexdigest())
    if name.endswith(".hgs"):
        decryptor = Decryptor(COLLECTOR_BOX)
        data = b"".join([*decryptor.feed(data), decryptor.finish()])
    return open_archive(lambda offset, count: data[offset : offset + count], len(data))


def entry_in(name: str, data: bytes) -> LogEntry:
    return opened(name, data).manifest.entry


def contents(name: str, data: bytes) -> tuple[list[Record], tuple[Loss, ...]]:
    """Of an archive that is whole and has its right name; anything else fails here."""
    archive = opened(name, data)
    return [each for block in archive.blocks() for each in block.records], archive.manifest.losses


def check_one_log(archives: dict[str, bytes]) -> None:
    """The archives are one log without a hole: numbers, digests, roots and positions continue each other."""
    entries = {bytes.fromhex(name.partition(".")[0]): entry_in(name, data) for name, data in archives.items()}
    head = LogHead(log=next(iter(entries.values())).log)
    for sha256, entry in sorted(entries.items(), key=lambda item: item[1].number):
        head = head.append(entry, sha256)


def check_every_record_once(archives: dict[str, bytes]) -> None:
    found = [contents(name, data) for name, data in archives.items()]
    assert sorted(each.position for records, _ in found for each in records) == [each.position for each in RECORDS]
    assert {loss for _, losses in found for loss in losses} == {LOSS}, (
        "reported at least once; its number identifies it"
    )


def check_whole(directory: Directory) -> None:
    for name in archive_names(directory):
        contents(name, read_whole(directory, name))


Aftermath = Callable[[SimulatedDisk, random.Random], SimulatedDisk]


class PowerLoss(Exception):
    """The lights went out before an operation."""


def lose_power(disk: SimulatedDisk, chance: random.Random) -> SimulatedDisk:
    return disk.after_power_loss(chance)


def be_killed(disk: SimulatedDisk, chance: random.Random) -> SimulatedDisk:
    return disk.after_kill(chance)


class Crash:
    """At the operation of a disk with this number."""

    def __init__(self, disk: SimulatedDisk, at: int) -> None:
        self._operations = itertools.count(1)
        self._at = at
        self.happened = False
        disk.before_each = self._count

    def _count(self) -> None:
        if next(self._operations) == self._at:
            self.happened = True
            raise PowerLoss


@pytest.mark.parametrize("aftermath", [lose_power, be_killed])
@pytest.mark.parametrize("encrypt_to", [None, COLLECTOR_BOX.public_key], ids=["plain", "encrypted"])
@pytest.mark.parametrize("seed", seeds(test=1, soak=50))
def test_a_crash_at_every_operation_leaves_whole_archives_with_every_record_once(
    aftermath: Aftermath, encrypt_to: PublicKey | None, seed: int
) -> None:
    for crash_at in itertools.count(1):
        chance = random.Random(1000 * seed + crash_at)
        life, disk = Life(chance, encrypt_to), SimulatedDisk()
        crash = Crash(disk, crash_at)
        with suppress(PowerLoss):
            life.live(disk.archive_folder(FOLDER))
        if not crash.happened:
            break
        disk = aftermath(disk, chance)
        check_whole(disk.archive_folder(FOLDER))
        life.check_stated(disk.after_kill().archive_folder(FOLDER))
        again = Crash(disk, chance.randint(1, 8))  # while it opens, and finishes what was left to do
        with suppress(PowerLoss):
            life.live(disk.archive_folder(FOLDER))
        disk = disk.after_power_loss(chance) if again.happened else disk.after_kill()
        restarted = disk.archive_folder(FOLDER)
        life.live(restarted)
        assert not [name for name in restarted.names() if name.startswith(".")]
        life.send_checkpoint(ArchiveStore(restarted, JOURNAL_ID))
        check_every_record_once(life.everything(restarted))
        check_one_log(life.everything(restarted))
    assert crash_at > 40


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("encrypt_to", [None, COLLECTOR_BOX.public_key], ids=["plain", "encrypted"])
def test_a_disk_that_fails_at_any_operation_is_an_error_after_which_archiving_goes_on(
    encrypt_to: PublicKey | None, problem: int
) -> None:
    for crash_at in itertools.count(1):
        disk = SimulatedDisk()
        directory = disk.archive_folder(FOLDER)
        life = Life(random.Random(crash_at), encrypt_to)
        store = ArchiveStore(directory, JOURNAL_ID)
        archiver = Archiver(store, directory, KEYS, life.settings)
        failing = Fail(problem, crash_at)
        disk.fault = failing.fault
        with suppress(StorageError):
            while archiver.archive(iter(RECORDS), lambda: [LOSS], now_ms=1) is not None:
                pass
        check_whole(directory)
        assert [name for name in directory.names() if name.startswith(".")] == []
        while archiver.archive(iter(RECORDS), lambda: [LOSS], now_ms=2) is not None:
            pass
        check_every_record_once(life.everything(directory))
        if not failing.happened:
            break
    assert crash_at > 30


@pytest.mark.slow
def test_a_killed_process_and_a_power_loss_while_the_next_one_opens_leave_every_record_once() -> None:
    """What the first one renamed is in the page cache only; the next must not act on it before it is durable."""
    for first_at, second_at in itertools.product(range(12, 36), range(1, 6)):
        for seed in seeds(test=1, soak=100):
            chance, disk = random.Random(seed), SimulatedDisk()
            Crash(disk, first_at)
            with suppress(PowerLoss):
                _archive_all(disk, now_ms=1)
            disk = disk.after_kill()
            Crash(disk, second_at)
            with suppress(PowerLoss):
                ArchiveStore(disk.archive_folder(FOLDER), JOURNAL_ID)
            disk = disk.after_power_loss(chance)
            _archive_all(disk, now_ms=2)
            folder = disk.archive_folder(FOLDER)
            check_every_record_once({name: read_whole(folder, name) for name in archive_names(folder)})


def _archive_all(disk: SimulatedDisk, now_ms: int) -> None:
    directory = disk.archive_folder(FOLDER)
    archiver = Archiver(ArchiveStore(directory, JOURNAL_ID), directory, KEYS, ArchiverSettings(max_records=15))
    while archiver.archive(iter(RECORDS), lambda: [LOSS], now_ms=now_ms) is not None:
        pass


class Fail:
    """One operation of a disk, the one with this number."""

    def __init__(self, problem: int, at: int) -> None:
        self._operations = itertools.count(1)
        self._problem, self._at = problem, at
        self.happened = False

    def fault(self, operation: str, _name: str) -> int | None:
        if operation == "read" or next(self._operations) != self._at:
            return None
        self.happened = True
        return self._problem


ARCHIVE_FOREVER = """
import itertools, sys
from pathlib import Path
from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.store import ArchiveStore, RealDirectory
from agent.keys import DeviceKeys
from tests.support.archives import record
directory = RealDirectory(Path(sys.argv[1]))
store = ArchiveStore(directory, b"journal-of-tests")
keys = DeviceKeys.generate(lambda count: b"\\x11" * count)
archiver = Archiver(store, directory, keys, ArchiverSettings(max_records=40))
print("ready", flush=True)
for round in itertools.count():
    archiver.archive(map(record, itertools.count()), tuple, now_ms=round)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_whole_archives_that_follow_each_other(tmp_path: Path) -> None:
    chance = random.Random(20)
    for _ in range(effort(test=8, soak=400)):
        process = subprocess.Popen(
            [sys.executable, "-c", ARCHIVE_FOREVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        with ended(process):
            assert process.stdout is not None
            process.stdout.readline()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0, 0.15))
        assert process.returncode == -signal.SIGKILL
    positions = sorted(
        each.position for path in tmp_path.glob("*.hga") for each in contents(path.name, path.read_bytes())[0]
    )
    assert positions == [record(number).position for number in range(len(positions))]
    assert len(positions) >= 40
