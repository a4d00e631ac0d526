import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.clock import CeilingFile, ChainReferences, ClockReading
from agent.clock.references import EARLIEST_MS, MAX_AHEAD_MS, RESERVE_MS
from agent.errors import StorageError
from protocol.reference import LATEST_CLOCK_MS, Reference
from tests.effort import effort

NOW_MS = 1_700_000_000_000


class CountingCeiling(CeilingFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes = 0

    def write(self, ceiling_ms: int) -> None:
        super().write(ceiling_ms)
        self.writes += 1


class Device:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal: dict[str, Reference] = {}  # the last reference of each chain in it
        self.start()

    def start(self) -> None:
        self.ceiling = CountingCeiling(self.path)
        self.references = ChainReferences(self.ceiling, max(self.journal.values(), default=None))

    def crash_and_start(self) -> None:
        self.ceiling.close()
        self.start()

    def stop_and_start(self) -> None:
        self.references.close()
        self.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed by the test
            self.ceiling.close()

    def commit(self, chain: str, now_ms: int) -> Reference:
        reference = self.references.next(chain, now_ms)
        self.journal[chain] = reference
        return reference


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with contextlib.closing(Device(tmp_path / "ceiling")) as device:
        yield device


def test_a_right_clock_is_followed_exactly(device: Device) -> None:
    assert device.commit("a", NOW_MS) == Reference(NOW_MS, 0)
    assert device.commit("a", NOW_MS + 5) == Reference(NOW_MS + 5, 0)
    assert device.commit("b", NOW_MS + 5) == Reference(NOW_MS + 5, 0)


def test_a_crash_does_not_disturb_a_chain_that_the_journal_holds(device: Device) -> None:
    device.commit("a", NOW_MS)
    device.crash_and_start()
    assert device.commit("a", NOW_MS + 1) == Reference(NOW_MS + 1, 0)


def test_a_clock_that_starts_in_1970_goes_on_after_the_last_message(device: Device) -> None:
    device.commit("a", NOW_MS)
    device.crash_and_start()
    assert device.commit("a", 17_000) == Reference(NOW_MS, 1)


def test_with_an_empty_journal_a_chain_continues_above_the_ceiling(device: Device) -> None:
    last = device.commit("a", NOW_MS)
    device.journal.clear()
    device.crash_and_start()
    after = device.commit("a", 17_000)
    assert last < after <= Reference(NOW_MS + RESERVE_MS + 1, 0)


def test_after_a_clean_stop_an_empty_journal_does_not_push_a_chain_ahead(device: Device) -> None:
    device.commit("a", NOW_MS)
    device.journal.clear()
    device.stop_and_start()
    assert device.commit("a", NOW_MS + 2) == Reference(NOW_MS + 2, 0)


def test_the_ceiling_of_an_earlier_crash_is_not_lowered_by_a_clean_stop(device: Device) -> None:
    device.commit("busy", NOW_MS)
    last = device.commit("rare", NOW_MS + 100)
    del device.journal["rare"]
    device.crash_and_start()
    assert device.commit("busy", 0) < last
    device.journal.clear()
    device.stop_and_start()
    assert device.commit("rare", 0) > last


def test_a_clock_that_stopped_and_a_clean_stop_do_not_repeat_a_sequence_number(device: Device) -> None:
    last = max(device.commit("a", NOW_MS) for _ in range(3))
    device.journal.clear()
    device.stop_and_start()
    assert device.commit("a", NOW_MS) > last


def test_the_very_first_millisecond_of_1970_is_not_given_out_twice(device: Device) -> None:
    first = device.commit("a", 0)
    device.journal.clear()
    device.crash_and_start()
    assert device.commit("a", 0) > first


def test_an_hour_of_messages_costs_one_small_write_in_two_minutes(device: Device) -> None:
    for second in range(3600):
        device.commit("a", NOW_MS + 1000 * second)
    assert device.ceiling.writes <= 30


def test_reserving_in_good_time_leaves_no_write_for_the_message(device: Device) -> None:
    device.references.reserve(NOW_MS)
    before = device.ceiling.writes
    device.commit("a", NOW_MS + RESERVE_MS // 2)
    assert device.ceiling.writes == before == 1
    device.references.reserve(NOW_MS + 1)
    assert device.ceiling.writes == 1


def test_a_stop_lets_go_of_the_file_though_the_disk_refuses(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    device.references.next("a", NOW_MS)
    monkeypatch.setattr(device.ceiling, "write", refuse)
    with pytest.raises(StorageError):
        device.references.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        CeilingFile.write(device.ceiling, NOW_MS)


def test_a_ceiling_that_cannot_be_kept_is_a_storage_error_and_gives_nothing_out(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(device.ceiling, "write", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            device.references.next("a", NOW_MS)
    assert device.commit("a", NOW_MS) == Reference(NOW_MS, 0)


def clock(now_ms: int, *, is_synchronised: bool = True) -> ClockReading:
    return ClockReading(
        now_ms=now_ms, monotonic_ms=1, boot_id=bytes(16), is_synchronised=is_synchronised, max_error_ms=1
    )


AHEAD_MS = NOW_MS + 86_400_000


def test_a_chain_held_less_far_ahead_than_nodes_accept_stays(device: Device) -> None:
    device.commit("a", NOW_MS + MAX_AHEAD_MS)
    assert not device.references.is_lost_in_future("a", clock(NOW_MS))
    assert device.references.is_lost_in_future("a", clock(NOW_MS - 1))


def test_a_return_outlives_the_process_though_the_journal_holds_what_is_ahead(device: Device) -> None:
    device.commit("a", AHEAD_MS)
    notice = device.references.return_to(NOW_MS)
    assert (notice.last, notice.count) == (Reference(AHEAD_MS, 0), 1)
    device.commit("b", NOW_MS)
    device.references.reserve(NOW_MS + 1)  # after the commit that reports it
    for restart in (device.crash_and_start, device.stop_and_start):
        device.journal = {"a": Reference(AHEAD_MS, 0)}  # as for a lane that nothing was written to since
        restart()
        assert not device.references.is_lost_in_future("new", clock(NOW_MS + 2))
        assert device.references.next("new", NOW_MS + 2) <= Reference(NOW_MS + RESERVE_MS + 3, 0)


def test_a_crash_before_the_report_is_committed_leaves_the_references_ahead(device: Device) -> None:
    """So that the next process returns, and reports it."""
    device.commit("a", AHEAD_MS)
    device.references.return_to(NOW_MS)
    device.crash_and_start()
    assert device.references.is_lost_in_future("a", clock(NOW_MS))


def test_without_a_ceiling_the_journal_is_believed(device: Device) -> None:
    device.journal["a"] = Reference(AHEAD_MS, 7)
    device.crash_and_start()
    assert device.references.next("a", NOW_MS) == Reference(AHEAD_MS, 8)


CLOCKS = (
    st.integers(-1000, 3000) | st.integers(NOW_MS - 5, NOW_MS + 5) | st.sampled_from([2**40, 2**62, LATEST_CLOCK_MS])
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["message", "crash", "stop", "empty journal", "reserve"]), st.sampled_from("ab"), CLOCKS),
    max_size=40,
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ceilings")
    return (folder / str(number) for number in range(100_000))


@settings(max_examples=effort(test=30, soak=5_000), deadline=None)
@given(events=EVENTS)
def test_references_strictly_increase_through_any_clock_restart_and_empty_journal(
    events: list[tuple[str, str, int]], paths: Iterator[Path]
) -> None:
    given_out: dict[str, list[Reference]] = {"a": [], "b": []}
    with contextlib.closing(Device(next(paths))) as device:
        for event, chain, now_ms in events:
            match event:
                case "message":
                    given_out[chain].append(device.commit(chain, now_ms))
                case "crash":
                    device.crash_and_start()
                case "stop":
                    device.stop_and_start()
                case "empty journal":
                    device.journal.clear()
                    device.crash_and_start()
                case "reserve":
                    device.references.reserve(now_ms)
    for references in given_out.values():
        assert references == sorted(set(references))


@settings(max_examples=effort(test=25, soak=5000), deadline=None)
@given(events=st.lists(st.tuples(st.sampled_from(["message", "crash", "stop"]), CLOCKS, st.booleans()), max_size=40))
def test_no_chain_ever_goes_back_and_a_right_clock_is_never_left_behind(
    events: list[tuple[str, int, bool]], paths: Iterator[Path]
) -> None:
    """As the wrapper uses it: each process, and each return, begins a chain of its own."""
    number, latest = 0, None
    with contextlib.closing(Device(next(paths))) as device:
        for event, now_ms, is_synchronised in events:
            if event != "message":
                device.crash_and_start() if event == "crash" else device.stop_and_start()
                number, latest = number + 1, None
                continue
            device.references.reserve(now_ms)
            reading = clock(now_ms, is_synchronised=is_synchronised)
            if device.references.is_lost_in_future(str(number), reading):
                device.references.return_to(now_ms)
                number, latest = number + 1, None
            reference = device.commit(str(number), now_ms)
            assert latest is None or reference > latest
            latest = reference
            if is_synchronised and EARLIEST_MS <= now_ms <= LATEST_CLOCK_MS:
                assert reference.timestamp_ms <= now_ms + MAX_AHEAD_MS
