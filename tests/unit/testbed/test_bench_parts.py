import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.bench.bench import wait_until
from testbed.bench.clock import ControlledClock
from testbed.bench.injection import flip_bits
from testbed.bench.volume import Volume, open_volume
from testbed.errors import BenchError

SHOW = (
    "from agent.clock import SystemClock; r = SystemClock().read(); print(r.now_ms, r.monotonic_ms, r.is_synchronised)"
)


def look(clock: ControlledClock) -> tuple[int, int, bool]:
    environment = {**os.environ, **clock.environment}
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
    now_ms, since_boot_ms, is_synchronised = done.stdout.split()
    return int(now_ms), int(since_boot_ms), is_synchronised == "True"


def _volume(folder: Path) -> Volume | None:
    """None on a machine that permits no mount."""
    try:
        return open_volume(folder, 16)
    except BenchError:
        return None


@pytest.mark.slow
@pytest.mark.needs("cc", "gcc")
def test_a_controlled_clock_starts_in_1970_runs_fast_and_is_set(tmp_path: Path) -> None:
    clock = ControlledClock(tmp_path)
    clock.start_in_1970()
    in_1970_ms, boot_ms, is_synchronised = look(clock)
    assert in_1970_ms < 3_600_000
    assert not is_synchronised
    clock.run_at(1e6)
    time.sleep(0.01)  # ten thousand seconds
    fast_ms, fast_boot_ms, _ = look(clock)
    assert fast_ms - in_1970_ms > 10_000_000
    assert fast_boot_ms - boot_ms > 10_000_000
    clock.synchronise()
    right_ms, after_ms, is_synchronised = look(clock)
    assert abs(right_ms - time.time() * 1000) < 60_000
    assert after_ms >= fast_boot_ms, "the clock since boot is never set"
    assert is_synchronised


@pytest.mark.slow
def test_room_that_was_made_is_there_after_a_power_cut(tmp_path: Path) -> None:
    volume = _volume(tmp_path)
    if volume is None:
        return  # scenarios then say so in their notes, and kill instead
    try:
        volume.fill(0)
        os.sync()
        volume.free_space()  # which the medium has not heard of yet
        volume.cut_power()
        volume.fill(0)
        volume.restore_power()
        (volume.mount_point / "more").write_bytes(bytes(100_000))
    finally:
        volume.unmount()


@pytest.mark.slow
def test_a_volume_loses_what_was_not_synced_when_its_power_is_cut(tmp_path: Path) -> None:
    volume = _volume(tmp_path)
    if volume is None:
        return  # scenarios then say so in their notes, and kill instead
    try:
        (volume.mount_point / "unsynced").write_bytes(b"gone")
        with (volume.mount_point / "synced").open("wb") as file:
            file.write(b"kept")
            file.flush()
            os.fsync(file.fileno())
            file.write(b" and gone")
            file.flush()
            volume.cut_power()
        volume.restore_power()
        assert (volume.mount_point / "synced").read_bytes() == b"kept"
        volume.fill(0)
        with pytest.raises(OSError, match="No space left"):
            (volume.mount_point / "more").write_bytes(bytes(100_000))
        volume.free_space()
        (volume.mount_point / "more").write_bytes(bytes(100_000))
    finally:
        volume.unmount()


def test_rot_flips_as_many_bits_as_it_says_and_only_where_something_is_written(tmp_path: Path) -> None:
    before = bytes(1000) + bytes(range(1, 256)) + bytes(1000)
    (tmp_path / "0001.seg").write_bytes(before)
    assert flip_bits(tmp_path.glob("[0-9]*"), 1, random.Random(1)) == 1
    after = (tmp_path / "0001.seg").read_bytes()
    changed = [offset for offset, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == 1
    assert 1000 <= changed[0] < 1255
    assert (before[changed[0]] ^ after[changed[0]]).bit_count() == 1
    assert flip_bits(tmp_path.glob("*.hga"), 1, random.Random(1)) == 0


def test_what_is_about_to_rot_is_shown_before(tmp_path: Path) -> None:
    (tmp_path / "one.hga").write_bytes(b"x")
    shown = []
    flip_bits(tmp_path.glob("*"), 8, random.Random(1), lambda path: shown.append((path.name, path.read_bytes())))
    assert shown == [("one.hga", b"x")]


def test_rot_leaves_out_a_file_that_was_deleted_since_it_was_listed(tmp_path: Path) -> None:
    (tmp_path / "there.hga").write_bytes(b"x")
    assert flip_bits([tmp_path / "gone.hga", tmp_path / "there.hga"], 5, random.Random(1)) == 1


def test_patience_lasts_while_there_is_progress() -> None:
    figures = iter(range(10))
    seen: list[int] = []

    def look() -> int:
        seen.append(next(figures, 10))
        return seen[-1]

    asyncio.run(wait_until(lambda: len(seen) == 10, "ten are there", look, patience_s=0.0))


def test_patience_ends_without_progress_and_says_where_it_stood() -> None:
    with pytest.raises(BenchError, match="until ten are there; at 7"):
        asyncio.run(wait_until(lambda: False, "ten are there", lambda: 7, patience_s=0.0))
