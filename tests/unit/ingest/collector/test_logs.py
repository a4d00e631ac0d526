import contextlib
import errno
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.collector import logs as module
from ingest.collector.errors import UploadRefused
from ingest.collector.landing import Landing
from ingest.collector.log_state import MAX_RANGES, LogState, Subject
from ingest.collector.logs import DeviceLog, Logs
from protocol.devicelog.entry import LaneRange, LogEntry, Replaced
from protocol.devicelog.frontier import MAX_LOG_SIZE, Frontier
from protocol.errors import Corrupt
from protocol.shipping import Refusal
from tests.effort import seeds
from tests.support.archives import LOG
from tests.support.crashing_folder import CrashingFolder
from tests.support.device_logs import checkpoint, digest, frontier, log_entry

DEVICE = b"d" * 20
OTHER = b"x" * 32


def open_logs(folder: Path, *, max_logs: int = 4) -> Logs:
    return Logs(folder / "logs", max_logs_per_device=max_logs, mark_forked=Landing(folder / "landing").mark_forked)


@contextlib.contextmanager
def held_log(logs: Logs, log: bytes = LOG) -> Iterator[DeviceLog]:
    with logs.hold(DEVICE, log, previous_log=b"", now_ms=1000) as held:
        yield held


def append(logs: Logs, number: int, entry: LogEntry | None = None) -> LogState:
    with held_log(logs) as held:
        entry = entry or log_entry(number)
        held.prepare(entry)
        assert held.contradiction_of(entry, digest(number)) is None
        held.append(entry, digest(number), 2000)
        return held.state


def state_of(logs: Logs) -> LogState:
    with held_log(logs) as held:
        return held.state


def test_a_log_grows_in_order_and_is_found_again(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    for number in range(5):
        assert append(logs, number).frontier == frontier(number + 1)
    state = state_of(open_logs(tmp_path))
    assert (state.frontier, state.archives, state.missing(), state.first_contact_ms) == (frontier(5), 5, (), 1000)


def test_archives_in_any_order_lead_to_the_same_root(tmp_path: Path) -> None:
    logs, numbers = open_logs(tmp_path), list(range(20))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        append(logs, number)
        append(logs, number)  # again: nothing changes
    assert state_of(logs).frontier == frontier(20)


def test_a_replaced_number_is_a_leaf_whose_archive_never_arrives(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    for number in (0, 2):
        append(logs, number)
    assert (state_of(logs).missing(), state_of(logs).missing_readings) == (((1, 2),), 10)
    state = append(logs, 3, log_entry(3, replaces=(Replaced(1, digest(1)),), lanes=(LaneRange(1, 0, 10, 20),)))
    assert (state.frontier, state.replaced, state.archives) == (frontier(4), 1, 3)
    assert append(logs, 4).frontier == frontier(5)
    assert append(logs, 1).frontier == frontier(5)  # it arrives after all
    with held_log(logs) as held:
        found = held.contradiction_of(log_entry(1), OTHER)
    assert found == (Subject.ARCHIVE, 1, digest(1), OTHER)


def test_several_replaced_numbers_fill_their_holes(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    append(logs, 0)
    append(logs, 4, log_entry(4, replaces=(Replaced(1, digest(1)), Replaced(3, digest(3)))))
    state = state_of(logs)
    assert (state.frontier.size, state.missing(), state.replaced) == (2, ((2, 3),), 2)
    assert append(logs, 2).frontier == frontier(5)


def test_a_root_that_proves_wrong_when_the_hole_is_filled_marks_the_fork_and_stops_there(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    append(logs, 0)
    append(logs, 2, log_entry(2, root=OTHER))
    append(logs, 3)
    state = append(logs, 1)
    assert state.frontier == frontier(2)
    assert [each.contradiction for each in state.forks] == [(Subject.ROOT, 2, frontier(2).root, OTHER)]
    assert state_of(open_logs(tmp_path)).forks_found == 1
    assert append(logs, 4).forks_found == 1


def test_the_frontier_follows_in_steps_after_a_long_hole_was_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 4)
    logs = open_logs(tmp_path)
    for number in range(1, 11):
        append(logs, number)
    assert append(logs, 0).frontier.size == 4
    with held_log(logs) as held:
        held.note_contact(3000)
        assert held.state.frontier.size == 8
        held.note_contact(3000)
        assert held.state.frontier == frontier(11)


def test_the_highest_number_is_stored_like_any_other(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    highest = MAX_LOG_SIZE - 1
    entry = log_entry(0, number=highest, previous=OTHER, root=OTHER)
    state = append(logs, highest, entry)
    assert state.missing() == ((0, highest),)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 2_000_000


def test_more_holes_than_the_limit_are_refused_with_a_time_to_retry(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    for number in range(0, 2 * MAX_RANGES, 2):
        append(logs, number)
    with held_log(logs) as held, pytest.raises(UploadRefused) as refused:
        held.check_space(log_entry(2 * MAX_RANGES))
    assert (refused.value.refusal, refused.value.retry_after_s) == (Refusal.BUSY, 60)
    append(logs, 1)
    append(logs, 2 * MAX_RANGES)


def test_a_device_has_a_limited_number_of_logs(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, max_logs=2)
    for log in (LOG, b"second log......"):
        with held_log(logs, log) as held:
            held.note_contact(1)
    with held_log(logs, b"third log.......") as held, pytest.raises(UploadRefused) as refused:
        held.note_contact(1)
    assert refused.value.refusal is Refusal.TOO_MANY_LOGS
    with logs.hold(b"e" * 20, b"third log.......", previous_log=b"", now_ms=1) as held:
        held.note_contact(1)  # another device has its own number
    append(logs, 0)


def test_a_log_without_anything_leaves_no_trace(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    with held_log(logs) as held:
        held.check_space(log_entry(0))
    assert list((tmp_path / "logs").iterdir()) == []


def test_the_totals_count_logs_with_missing_archives_and_forks(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    append(logs, 1)
    with held_log(logs, b"another log.....") as held:
        held.note_contact(1, received=3)
        found = held.contradiction_of_checkpoint(checkpoint(0, previous_log=b"p" * 16))
        assert found is not None
        held.mark_forked(found, 5)
    expected = {"logs_with_missing_archives": 2, "logs_forked": 1}
    (mark,) = (tmp_path / "landing").glob("*.forked")
    mark.unlink()
    open_logs(tmp_path)
    assert mark.exists(), "the mark for the ingest is made again by the next start"
    assert logs.totals == open_logs(tmp_path).totals == expected
    append(logs, 0)
    assert logs.totals == open_logs(tmp_path).totals == {**expected, "logs_with_missing_archives": 1}


def test_a_damaged_state_is_named_and_refused_and_the_others_still_work(tmp_path: Path) -> None:
    append(open_logs(tmp_path), 0)
    (state,) = tmp_path.glob("logs/*/*/state")
    state.write_bytes(state.read_bytes()[:-1])
    logs = open_logs(tmp_path)
    with pytest.raises(Corrupt, match=r"state: .*restore your copy"):
        append(logs, 1)
    with held_log(logs, b"another log.....") as held:
        held.note_contact(1)


def test_a_damaged_checkpoint_counts_as_none(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    with held_log(logs) as held:
        held.prepare()
        held.store_checkpoint(checkpoint().to_bytes())
        assert held.find_checkpoint() == checkpoint()
        held.store_checkpoint(b"damaged")
        assert held.find_checkpoint() is None


def test_one_thread_at_a_time_has_a_log_and_different_logs_do_not_wait(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: append(logs, number), random.Random(2).sample(range(40), 40)))
    assert state_of(logs).frontier == frontier(40)
    entered = threading.Event()

    def use_another() -> None:
        with held_log(logs, b"another log....."):
            entered.set()

    with held_log(logs) as held:
        assert isinstance(held, DeviceLog)
        thread = threading.Thread(target=use_another)
        thread.start()
        assert entered.wait(20)
    thread.join()


@pytest.mark.parametrize("seed", seeds(test=6, soak=300))
def test_a_state_whose_name_was_not_synced_is_synced_before_it_is_relied_upon(tmp_path: Path, seed: int) -> None:
    with CrashingFolder(tmp_path / "data") as folder:
        append(open_logs(folder.path), 0)
        folder.fault = lambda operation, path: errno.EIO if operation == "sync" and path.endswith(LOG.hex()) else None
        with pytest.raises(OSError, match="Input/output"):
            append(open_logs(folder.path), 1)
        folder.fault = lambda _operation, _path: None
        assert append(open_logs(folder.path), 1).frontier == frontier(2)
        found = folder.after_power_loss(tmp_path / "found", random.Random(seed))
    assert state_of(open_logs(found)).frontier == frontier(2)


def test_the_cost_of_an_archive_does_not_depend_on_the_length_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in hashes and bytes, never in time."""
    appended: list[int] = []
    real = Frontier.append

    def counted(self: Frontier, data: bytes) -> Frontier:
        appended.append(self.size)
        return real(self, data)

    logs = open_logs(tmp_path)
    for number in range(60):
        append(logs, number)
    expected = [log_entry(number) for number in (60, 61)]
    (state,) = tmp_path.glob("logs/*/*/state")
    size_bytes = state.stat().st_size
    monkeypatch.setattr(Frontier, "append", counted)
    for entry in expected:
        with held_log(logs) as held:
            held.append(entry, digest(entry.number), 2000)
    assert appended == [60, 61]
    assert state.stat().st_size <= size_bytes + 8 * 34
