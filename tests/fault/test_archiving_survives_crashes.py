"""Crash anywhere while archiving: no half file under a final name, no record twice, none skipped, no leftovers."""

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

from agent.archive import Archiver, ArchiverSettings, ArchiveStore, Directory, KeptArchive
from agent.errors import StorageError
from agent.keys import DeviceKeys
from protocol.archive import Loss, Opener, Receipt, Record, open_archive, sign_receipt
from tests.archives import LOSS, record
from tests.fault.simulated_directory import PowerLoss, SimulatedDirectory

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
COLLECTOR = SigningKey(b"c" * 32)
COLLECTOR_BOX = PrivateKey(b"k" * 32)
JOURNAL_ID = b"journal-of-tests"
RECORDS = [record(number) for number in range(30)]


class Life:
    """The life of a device over several starts: a journal that grows, an archiver, a collector that gives receipts."""

    def __init__(self, chance: random.Random, seal_to: PublicKey | None) -> None:
        self.chance = chance
        self.settings = ArchiverSettings(max_records=9, max_text_bytes=10_000, seal_to=seal_to)
        self.committed = 0  # how much of RECORDS the journal has
        self.losses = [LOSS]  # until a receipt covers an archive that tells of it
        self.collected: dict[str, bytes] = {}  # what the collector has, by name
        self.now_ms = 1_700_000_000_000

    def live(self, directory: Directory) -> None:
        """Until everything is archived, or the lights go out."""
        store = ArchiveStore(directory, JOURNAL_ID)
        archiver = Archiver(store, directory, KEYS, self.settings)
        while True:
            self.now_ms += self.chance.randint(1, 100)  # differing clocks would show as differing files
            self.committed = min(len(RECORDS), self.committed + self.chance.randint(0, 15))
            archive = archiver.archive(iter(RECORDS[: self.committed]), lambda: self.losses, now_ms=self.now_ms)
            if self.chance.random() < 0.3:
                self.ship_one(store, directory)
            if archive is None and self.committed == len(RECORDS):
                return

    def ship_one(self, store: ArchiveStore, directory: Directory) -> None:
        for archive in store.state.kept[:1]:
            self.collected[archive.file_name] = read_whole(directory, archive.file_name)
            store.release(receipt_for(archive), device=KEYS.address, collector_key=bytes(COLLECTOR.verify_key))
            self.losses = [loss for loss in self.losses if loss.number not in archive.losses]

    def everything(self, directory: Directory) -> dict[str, bytes]:
        """Every archive that ever got its name, here or at the collector."""
        return {**self.collected, **{name: read_whole(directory, name) for name in archive_names(directory)}}


def receipt_for(archive: KeptArchive) -> Receipt:
    return sign_receipt(
        archive=archive.sha256,
        size_bytes=archive.size_bytes,
        device=KEYS.address,
        received_at_ms=1,
        collector_key=bytes(COLLECTOR.verify_key),
        sign=lambda message: COLLECTOR.sign(message).signature,
    )


def archive_names(directory: Directory) -> list[str]:
    return [name for name in directory.names() if name.endswith((".hga", ".hgs"))]


def read_whole(directory: Directory, name: str) -> bytes:
    return directory.read(name, 0, directory.size(name))


def contents(name: str, data: bytes) -> tuple[list[Record], tuple[Loss, ...]]:
    """Of an archive that is whole and has its right name; anything else fails here."""
    assert name.startswith(hashlib.sha256(data).hexdigest())
    if name.endswith(".hgs"):
        opener = Opener(COLLECTOR_BOX)
        data = b"".join([*opener.feed(data), opener.finish()])
    archive = open_archive(lambda offset, count: data[offset : offset + count], len(data))
    return [each for block in archive.blocks() for each in block.records], archive.manifest.losses


def check_every_record_once(archives: dict[str, bytes]) -> None:
    found = [contents(name, data) for name, data in archives.items()]
    assert sorted(each.position for records, _ in found for each in records) == [each.position for each in RECORDS]
    assert {loss for _, losses in found for loss in losses} == {LOSS}, "told at least once; its number tells a copy"


def check_whole(directory: Directory) -> None:
    for name in archive_names(directory):
        contents(name, read_whole(directory, name))


Aftermath = Callable[[SimulatedDirectory, random.Random], SimulatedDirectory]


def lose_power(directory: SimulatedDirectory, chance: random.Random) -> SimulatedDirectory:
    return directory.after_power_loss(chance)


def be_killed(directory: SimulatedDirectory, _: random.Random) -> SimulatedDirectory:
    return directory.after_kill()


@pytest.mark.parametrize("aftermath", [lose_power, be_killed])
@pytest.mark.parametrize("seal_to", [None, COLLECTOR_BOX.public_key], ids=["plain", "sealed"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_crash_at_every_operation_leaves_whole_archives_with_every_record_once(
    aftermath: Aftermath, seal_to: PublicKey | None, seed: int
) -> None:
    for crash_at in itertools.count(1):
        chance = random.Random(1000 * seed + crash_at)
        life, directory = Life(chance, seal_to), SimulatedDirectory(crash_at)
        with suppress(PowerLoss):
            life.live(directory)
        if not directory.crashed:
            break
        restarted = aftermath(directory, chance)
        check_whole(restarted)
        life.live(restarted)
        assert not [name for name in restarted.names() if name.startswith(".")]
        check_every_record_once(life.everything(restarted))
    assert crash_at > 40


@pytest.mark.parametrize("seal_to", [None, COLLECTOR_BOX.public_key], ids=["plain", "sealed"])
def test_a_full_disk_at_every_operation_is_an_error_after_which_archiving_goes_on(seal_to: PublicKey | None) -> None:
    for crash_at in itertools.count(1):
        directory = SimulatedDirectory()
        life = Life(random.Random(crash_at), seal_to)
        store = ArchiveStore(directory, JOURNAL_ID)
        archiver = Archiver(store, directory, KEYS, life.settings)
        directory._operations, directory._crash_at = itertools.count(1), crash_at
        directory.fail_with = OSError(28, "No space left on device")
        with suppress(StorageError):
            while archiver.archive(iter(RECORDS), lambda: [LOSS], now_ms=1) is not None:
                pass
        check_whole(directory)
        assert [name for name in directory.names() if name.startswith(".")] == []
        while archiver.archive(iter(RECORDS), lambda: [LOSS], now_ms=2) is not None:
            pass
        check_every_record_once(life.everything(directory))
        if not directory.crashed:
            break
    assert crash_at > 40


ARCHIVE_FOREVER = """
import itertools, sys
from pathlib import Path
from agent.archive import Archiver, ArchiverSettings, ArchiveStore, RealDirectory
from agent.keys import DeviceKeys
from tests.archives import record
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
    for _ in range(40):
        process = subprocess.Popen(
            [sys.executable, "-c", ARCHIVE_FOREVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    positions = sorted(
        each.position for path in tmp_path.glob("*.hga") for each in contents(path.name, path.read_bytes())[0]
    )
    assert positions == [record(number).position for number in range(len(positions))]
    assert len(positions) > 400
