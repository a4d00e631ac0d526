import random
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from ingest.collector.receipts import Receipts
from protocol.archive.receipt import Receipt
from protocol.errors import WireError
from tests.effort import seeds
from tests.support.collectors import ARCHIVE, claim_for
from tests.support.crashing_folder import CrashingFolder
from tests.support.device_logs import frontier

OLD_KEY, NEW_KEY = SigningKey(b"o" * 32), SigningKey(b"n" * 32)
CLAIM = claim_for(ARCHIVE)
HELD = frontier(3)


def test_a_receipt_that_was_given_is_found_as_it_was(tmp_path: Path) -> None:
    given = Receipts(tmp_path, OLD_KEY).issue(CLAIM, HELD, now_ms=5)
    assert Receipts(tmp_path, OLD_KEY).find(CLAIM) == given


@pytest.mark.parametrize("seed", seeds(test=4, soak=500))
def test_a_receipt_survives_a_power_cut_also_in_a_directory_of_a_killed_process(tmp_path: Path, seed: int) -> None:
    with CrashingFolder(tmp_path / "receipts") as folder:
        (folder.path / CLAIM.device.hex()).mkdir()
        given = Receipts(folder.path, OLD_KEY).issue(CLAIM, HELD, now_ms=5)
        found = folder.after_power_loss(tmp_path / "found", random.Random(seed))
    assert Receipts(found, OLD_KEY).find(CLAIM) == given


def test_a_receipt_states_number_and_log_as_far_as_it_is_held(tmp_path: Path) -> None:
    receipt = Receipt.from_bytes(Receipts(tmp_path, OLD_KEY).issue(CLAIM, HELD, now_ms=5))
    stated = (receipt.log, receipt.number, receipt.held_size, receipt.held_root)
    assert stated == (CLAIM.entry.log, CLAIM.entry.number, 3, HELD.root)


def test_a_receipt_is_never_made_twice(tmp_path: Path) -> None:
    receipts = Receipts(tmp_path, OLD_KEY)
    receipts.issue(CLAIM, HELD, now_ms=5)
    with pytest.raises(FileExistsError):
        receipts.issue(CLAIM, HELD, now_ms=6)


def test_after_a_change_of_keys_the_receipt_is_signed_anew_and_says_the_same(tmp_path: Path) -> None:
    old = Receipt.from_bytes(Receipts(tmp_path, OLD_KEY).issue(CLAIM, HELD, now_ms=5))
    receipts = Receipts(tmp_path, NEW_KEY)
    found = receipts.find(CLAIM)
    assert found is not None
    new = Receipt.from_bytes(found)
    assert new.collector_key == bytes(NEW_KEY.verify_key)
    assert (new.archive, new.size_bytes, new.received_at_ms) == (old.archive, old.size_bytes, old.received_at_ms)
    assert receipts.find(CLAIM) == found


def test_a_damaged_receipt_is_not_given(tmp_path: Path) -> None:
    receipts = Receipts(tmp_path, OLD_KEY)
    receipts.issue(CLAIM, HELD, now_ms=5)
    (path,) = tmp_path.glob("*/*.receipt")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WireError):
        receipts.find(CLAIM)
