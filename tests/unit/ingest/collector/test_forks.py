import random
from pathlib import Path

import pytest

from ingest.collector import forks as module
from ingest.collector.forks import ForkEvidence
from protocol.shipping import UploadClaim
from tests.support.archives import BINDING, LOG
from tests.support.collectors import claim_for
from tests.support.logging_device import LoggingDevice


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def uploads(tmp_path: Path, count: int) -> list[tuple[Path, UploadClaim]]:
    made = []
    for number in range(count):
        data = LoggingDevice(flavour=b"%d" % number).archive()
        path = tmp_path / f"{number}.part"
        path.write_bytes(data)
        made.append((path, claim_for(data)))
    return made


def test_an_archive_is_copied_with_its_claim_and_the_original_stays(tmp_path: Path) -> None:
    evidence = ForkEvidence(tmp_path / "forks", max_bytes_per_device=10_000)
    ((upload, claim),) = uploads(tmp_path, 1)
    assert not evidence.holds(claim)
    assert evidence.store_archive(upload, claim)
    assert evidence.store_archive(upload, claim)
    assert evidence.holds(claim)
    name, folder = claim.archive.hex(), tmp_path / "forks" / BINDING.address.hex() / LOG.hex()
    assert stored(folder) == {f"{name}.hga": upload.read_bytes(), f"{name}.claim": claim.to_bytes()}


def test_a_copy_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    evidence = ForkEvidence(tmp_path / "forks", max_bytes_per_device=100_000)
    ((upload, claim),) = uploads(tmp_path, 1)
    folder = tmp_path / "forks" / BINDING.address.hex() / LOG.hex()
    folder.mkdir(parents=True)
    (folder / f".{claim.archive.hex()}.hga.new").write_bytes(random.Random(1).randbytes(5000))
    assert not evidence.holds(claim)
    assert evidence.store_archive(upload, claim)
    assert stored(folder)[f"{claim.archive.hex()}.hga"] == upload.read_bytes()


def test_the_number_and_the_bytes_of_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = uploads(tmp_path, 4)
    evidence = ForkEvidence(tmp_path / "forks", max_bytes_per_device=5000)
    assert [evidence.store_archive(*each) for each in made] == [True, True, True, False]
    assert not evidence.has_space(made[3][1])
    monkeypatch.setattr(module, "MAX_FILES_PER_DEVICE", 3)
    few = ForkEvidence(tmp_path / "few", max_bytes_per_device=100_000)
    assert [few.store_archive(*each) for each in made[:2]] == [True, False]
    few.store_checkpoint(BINDING.address, LOG, b"1" * 32, b"first")
    few.store_checkpoint(BINDING.address, LOG, b"2" * 32, b"beyond the limit")
    assert b"first" in stored(tmp_path / "few").values()
    assert len(stored(tmp_path / "few")) == 3
