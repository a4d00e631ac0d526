import errno

import pytest

from agent.journal.segments import SegmentPool, file_name, file_number
from tests.support.simulated_disk import SimulatedDisk

SEGMENT_BYTES = 8192


def _pool(disk: SimulatedDisk, *, keep_reserve: bool = False, max_segments: int = 4) -> SegmentPool:
    return SegmentPool(
        disk, segment_bytes=SEGMENT_BYTES, max_segments=max_segments, spare_segments=1, keep_reserve=keep_reserve
    )


@pytest.mark.parametrize("name", ["state-0", "x.segment", "12.segment", "0001.segment.old", "٣٣٣٣.segment"])
def test_other_names_are_no_segment_files(name: str) -> None:
    assert file_number(name) is None


def test_names_and_numbers_belong_together() -> None:
    assert [file_number(file_name(number)) for number in (0, 17, 12345)] == [0, 17, 12345]


def test_files_are_made_up_to_the_cap_and_not_beyond() -> None:
    pool = _pool(SimulatedDisk())
    assert [pool.take() for _ in range(5)] == [0, 1, 2, 3, None]
    assert pool.bytes_on_disk == 4 * SEGMENT_BYTES


def test_a_file_given_back_is_used_again_before_a_new_one_is_made() -> None:
    pool = _pool(SimulatedDisk())
    first = pool.take()
    assert first is not None
    pool.give_back(first)
    assert pool.take() == first


def test_spares_beyond_the_setting_are_deleted_once_the_state_is_saved() -> None:
    disk = SimulatedDisk()
    pool = _pool(disk)
    for number in [number for _ in range(3) if (number := pool.take()) is not None]:
        pool.give_back(number)
    assert len(disk.files) == 3
    pool.settle()
    assert len(disk.files) == 1


def test_a_full_disk_means_no_file_and_another_failure_is_raised() -> None:
    assert _pool(SimulatedDisk(capacity_bytes=100)).take() is None
    disk = SimulatedDisk()

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk.before_each = fail
    with pytest.raises(OSError, match="Input/output"):
        _pool(disk).take()


def test_a_reserve_is_kept_back_for_thinning() -> None:
    pool = _pool(SimulatedDisk(), keep_reserve=True)
    pool.settle()
    assert [pool.take() for _ in range(4)].count(None) == 1
    assert pool.take_reserve() is not None
    assert pool.take_reserve() is None


def test_a_file_of_another_size_is_not_used_but_replaced() -> None:
    disk = SimulatedDisk()
    disk.create(file_name(0), 4096)
    pool = _pool(disk)
    pool.settle()
    assert pool.take() == 0
    assert disk.size(file_name(0)) == SEGMENT_BYTES
