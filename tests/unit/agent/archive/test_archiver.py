import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.reading import to_archive_record
from agent.archive.state import KeptArchive
from agent.archive.store import STATE_NAME, ArchiveStore, RealDirectory
from agent.errors import ConfigError, StorageError
from agent.journal import Record as JournalRecord
from agent.keys import DeviceKeys
from protocol.archive.encryption import Decryptor
from protocol.archive.random_access import open_archive
from protocol.archive.receipt import Receipt
from protocol.archive.records import Record
from protocol.losses import Loss
from tests.support.archives import LOSS, read_archive, read_at_of, record
from tests.support.device_logs import make_receipt

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
COLLECTOR = SigningKey(b"c" * 32)
COLLECTOR_BOX = PrivateKey(b"k" * 32)
JOURNAL_ID = b"journal-of-tests"
RECORDS = [record(number) for number in range(25)]


class Device:
    """A directory with its store and archiver, opened anew as often as a test requires."""

    def __init__(self, path: Path, settings: ArchiverSettings) -> None:
        self.path = path
        self.settings = settings
        self._open()

    def _open(self) -> None:
        self.directory = RealDirectory(self.path)
        self.store = ArchiveStore(self.directory, JOURNAL_ID)
        self.archiver = Archiver(self.store, self.directory, KEYS, self.settings)

    def close(self) -> None:
        self.directory.close()

    def reopened(self) -> Self:
        self.close()
        self._open()
        return self

    def archive(self, records: Iterable[Record] = RECORDS, losses: Iterable[Loss] = ()) -> KeptArchive | None:
        return self.archiver.archive(iter(records), lambda: losses, now_ms=1_700_000_000_000)

    def archive_all(self, records: Iterable[Record] = RECORDS, losses: Iterable[Loss] = ()) -> list[KeptArchive]:
        return list(iter(lambda: self.archive(records, losses), None))

    def records_of(self, archive: KeptArchive) -> list[Record]:
        return read_archive((self.path / archive.file_name).read_bytes())[1]


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with contextlib.closing(Device(tmp_path / "archives", ArchiverSettings(max_records=10))) as device:
        yield device


def receipt_for(archive: KeptArchive, key: SigningKey = COLLECTOR) -> Receipt:
    return make_receipt(archive=archive.sha256, size_bytes=archive.size_bytes, device=KEYS.address, key=key)


def release(device: Device, receipt: Receipt) -> KeptArchive | None:
    return device.store.release(receipt, device=KEYS.address, collector_key=bytes(COLLECTOR.verify_key))


def test_records_go_into_archives_of_the_size_that_was_set_and_none_is_taken_too_many(device: Device) -> None:
    source = iter(RECORDS)
    sizes = []
    while (archive := device.archiver.archive(source, tuple, now_ms=1)) is not None:
        sizes.append(len(device.records_of(archive)))
    assert sizes == [10, 10, 5]


def test_an_archive_is_also_closed_by_the_size_of_its_texts(tmp_path: Path) -> None:
    with contextlib.closing(Device(tmp_path, ArchiverSettings(max_text_bytes=3 * len(RECORDS[0].text)))) as device:
        archive = device.archive()
        assert archive is not None
        assert len(device.records_of(archive)) == 3


def test_the_file_is_named_by_its_digest_and_private_to_user_and_group(device: Device) -> None:
    archive = device.archive()
    assert archive is not None
    path = device.path / archive.file_name
    assert path.name == hashlib.sha256(path.read_bytes()).hexdigest() + ".hga"
    assert path.stat().st_mode & 0o007 == 0
    assert archive.size_bytes == path.stat().st_size


def test_what_is_archived_is_not_archived_again_not_even_after_a_restart(device: Device) -> None:
    assert len(device.archive_all()) == 3
    assert device.archive() is None
    reopened = device.reopened()
    assert reopened.archive() is None
    more = reopened.archive([*RECORDS, record(25)])
    assert more is not None
    assert reopened.records_of(more) == [record(25)]


def test_losses_are_reported_once_and_need_no_records(device: Device) -> None:
    later = dataclasses.replace(LOSS, number=8)
    first = device.archive([], [LOSS])
    assert first is not None
    assert device.archive([], [LOSS]) is None
    second = device.reopened().archive([], [later, LOSS])
    assert second is not None
    manifests = [read_archive((device.path / each.file_name).read_bytes())[0].manifest for each in (first, second)]
    assert [manifest.losses for manifest in manifests] == [(LOSS,), (later,)]


def test_a_loss_that_shows_while_records_are_read_is_reported_in_the_same_archive(device: Device) -> None:
    losses: list[Loss] = []

    def damaged() -> Iterator[Record]:
        yield RECORDS[0]
        losses.append(LOSS)
        yield RECORDS[2]

    archive = device.archiver.archive(damaged(), lambda: losses, now_ms=1)
    assert archive is not None
    opened, records = read_archive((device.path / archive.file_name).read_bytes())
    assert (records, opened.manifest.losses) == ([RECORDS[0], RECORDS[2]], (LOSS,))
    assert archive.losses == (LOSS.number,)


def test_a_loss_goes_into_the_next_archive_when_the_archive_that_reported_it_is_damaged(device: Device) -> None:
    first = device.archive(RECORDS[:5], [LOSS])
    assert first is not None
    device.store.discard(first)
    again = device.reopened().archive(RECORDS[:5], [LOSS])
    assert again is not None
    assert read_archive((device.path / again.file_name).read_bytes())[0].manifest.losses == (LOSS,)


def test_a_encrypted_archive_opens_with_the_collectors_key_and_nothing_plain_is_left(tmp_path: Path) -> None:
    with contextlib.closing(Device(tmp_path, ArchiverSettings(encrypt_to=COLLECTOR_BOX.public_key))) as device:
        archive = device.archive()
        assert archive is not None
        assert {path.name for path in tmp_path.iterdir()} == {archive.file_name, STATE_NAME}
        data = (tmp_path / archive.file_name).read_bytes()
        assert archive.file_name == hashlib.sha256(data).hexdigest() + ".hgs"
        decryptor = Decryptor(COLLECTOR_BOX)
        plain = b"".join([*decryptor.feed(data), decryptor.finish()])
        opened = open_archive(read_at_of(plain), len(plain))
        assert [each for block in opened.blocks() for each in block.records] == RECORDS
        assert device.reopened().archive() is None


def test_a_receipt_releases_exactly_its_archive_and_the_journal_behind_it(device: Device) -> None:
    first, second, third = device.archive_all()
    assert device.store.state.released_up_to() == {0: -1, 1: -1}
    release(device, receipt_for(second))
    assert device.store.state.released_up_to() == {0: -1, 1: -1}
    assert release(device, receipt_for(first)) == first
    assert release(device, receipt_for(first)) is None
    assert device.store.state.released_up_to() == {0: 28, 1: 29}
    assert {path.name for path in device.path.iterdir()} == {third.file_name, STATE_NAME}
    assert device.reopened().archive() is None


def test_a_receipt_for_another_file_device_or_collector_releases_nothing(device: Device) -> None:
    (archive, *_) = device.archive_all()
    other_file = dataclasses.replace(archive, sha256=bytes(32))
    shorter = dataclasses.replace(archive, size_bytes=archive.size_bytes - 1)
    for receipt in (receipt_for(other_file), receipt_for(shorter), receipt_for(archive, SigningKey(b"x" * 32))):
        assert release(device, receipt) is None
    assert (device.path / archive.file_name).exists()
    assert len(device.store.state.kept) == 3


def test_files_that_are_not_ours_are_left_alone(device: Device) -> None:
    foreign = device.path / ("ab" * 32 + ".hga")
    foreign.write_bytes(b"someone else's")
    device.archive_all()
    device.reopened()
    assert foreign.read_bytes() == b"someone else's"


@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_lost_or_damaged_state_is_made_anew_from_the_archives(device: Device, damage: str) -> None:
    archives = device.archive_all(losses=[LOSS])
    state = device.store.state
    path = device.path / STATE_NAME
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    (device.path / ("cd" * 32 + ".hga")).write_bytes(b"not an archive")
    reopened = device.reopened()
    assert reopened.store.state.copied_up_to() == state.copied_up_to()
    assert reopened.store.state.log.previous_log == state.log.log
    assert reopened.store.state.reason == "the archive state was lost or damaged"
    assert reopened.store.state.reported_losses() == {LOSS.number}
    assert {each.sha256 for each in reopened.store.state.kept} == {each.sha256 for each in archives}
    assert {each.entry for each in reopened.store.state.kept} == {each.entry for each in archives}
    assert reopened.archive(RECORDS, [LOSS]) is None


def test_an_archive_that_is_gone_without_a_receipt_is_reported_and_does_not_block_the_start(device: Device) -> None:
    first, *_ = device.archive_all()
    (device.path / first.file_name).unlink()
    reopened = device.reopened()
    assert reopened.store.missing == (first.file_name,)
    assert reopened.store.state.released_up_to() == {0: -1, 1: -1}
    assert reopened.archive([*RECORDS, record(25)]) is not None


def test_a_second_archiver_in_the_same_directory_is_refused(device: Device) -> None:
    with pytest.raises(ConfigError, match="another process"):
        RealDirectory(device.path)
    device.reopened()


def test_a_directory_that_cannot_be_synced_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("agent.archive.store.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            RealDirectory(tmp_path)
    RealDirectory(tmp_path).close()


def test_when_too_many_archives_wait_it_says_so_and_takes_no_more(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.archive.store.MAX_KEPT_ARCHIVES", 2)
    device.archive()
    device.archive()
    with pytest.raises(StorageError, match="2 archives wait for a receipt"):
        device.archive()


@pytest.mark.parametrize("now_ms", [-1, 2**60])
def test_a_clock_gone_mad_does_not_stop_archiving(device: Device, now_ms: int) -> None:
    assert device.archiver.archive(iter(RECORDS), tuple, now_ms=now_ms) is not None


def test_an_endless_source_is_read_in_bounded_bites(device: Device) -> None:
    archive = device.archive(map(record, itertools.count()))
    assert archive is not None
    assert len(device.records_of(archive)) == 10


def test_what_the_journal_gives_becomes_what_an_archive_stores() -> None:
    given = JournalRecord(4, 1, b"text", "chain", 1000, 2, 1003)
    assert to_archive_record(given) == Record(b"text", "chain", 1000, 2, 1, 4, 1003)


def test_no_archive_is_begun_that_takes_the_room_which_all_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(Device(tmp_path, ArchiverSettings(min_free_bytes=64 << 20))) as device:
        monkeypatch.setattr(device.directory, "free_bytes", lambda: 63 << 20)
        assert device.archive([]) is None, "there is nothing to do, and no problem"
        with pytest.raises(StorageError, match="63 MiB of the disk are free, 64 MiB must stay free"):
            device.archive()
        assert device.store.state.kept == ()
        monkeypatch.setattr(device.directory, "free_bytes", lambda: 64 << 20)
        archive = device.archive()
        assert archive is not None
        assert device.records_of(archive) == RECORDS
