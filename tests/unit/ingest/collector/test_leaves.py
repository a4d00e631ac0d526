from pathlib import Path

import pytest

from ingest.collector.leaves import LEAF_BYTES, NUMBERS_PER_FILE, Leaf, LeafFiles
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.errors import Corrupt
from tests.support.device_logs import digest

ROOT = b"r" * 32


def test_a_leaf_is_read_by_its_number_across_files(tmp_path: Path) -> None:
    numbers = (0, 1, NUMBERS_PER_FILE - 1, NUMBERS_PER_FILE, NUMBERS_PER_FILE + 1)
    leaves = LeafFiles(tmp_path)
    leaves.write({number: Leaf(digest(number), ROOT) for number in numbers})
    assert [leaves.read(number).sha256 for number in numbers] == [digest(number) for number in numbers]
    across = list(leaves.read_range(NUMBERS_PER_FILE - 1, NUMBERS_PER_FILE + 2))
    assert across == [Leaf(digest(number), ROOT) for number in numbers[2:]]
    assert list(leaves.read_range(5, 5)) == []


def test_an_unknown_root_is_read_as_unknown(tmp_path: Path) -> None:
    leaves = LeafFiles(tmp_path)
    leaves.write({3: Leaf(digest(3), b"")})
    assert leaves.read(3) == Leaf(digest(3), b"")


def test_the_highest_number_takes_as_little_space_as_any(tmp_path: Path) -> None:
    LeafFiles(tmp_path).write({MAX_LOG_SIZE - 1: Leaf(digest(1), ROOT)})
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size <= NUMBERS_PER_FILE * LEAF_BYTES
    assert LeafFiles(tmp_path).read(MAX_LOG_SIZE - 1).sha256 == digest(1)


@pytest.mark.parametrize("number", [1, 7, NUMBERS_PER_FILE * 2])
def test_a_damaged_or_missing_leaf_is_named(tmp_path: Path, number: int) -> None:
    leaves = LeafFiles(tmp_path)
    leaves.write({number: Leaf(digest(number), ROOT) for number in range(4)})
    path = tmp_path / "leaves-000000"
    data = bytearray(path.read_bytes())
    data[LEAF_BYTES + 5] ^= 1
    path.write_bytes(data)
    assert leaves.read(2).sha256 == digest(2)
    with pytest.raises(Corrupt, match=f"leaves-.*number {number}: .*restore"):
        leaves.read(number)
